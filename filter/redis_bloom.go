package filter

import (
	"context"
	_ "embed"
	"encoding/binary"
	"fmt"
	"iter"
	"strconv"

	"github.com/bits-and-blooms/bloom/v3"
	"github.com/dgryski/go-metro"

	"github.com/retrysafe/retrysafe/redisclient"
)

//go:embed lua/bloom_add.lua
var bloomAddLua string

//go:embed lua/bloom_look.lua
var bloomLookLua string

var (
	bloomAdd  = redisclient.NewScript("filter-bloom-add", "#!lua\n"+headLua+writeLua+bloomAddLua)
	bloomLook = redisclient.NewScript("filter-bloom-look", "#!lua flags=no-writes\n"+headLua+bloomLookLua)
)

// RedisBloom is a Bloom filter that processes share, on Redis 7: a single server, Sentinel, or
// Cluster, where it is in one slot. Its bits are in plain strings of at most a mebibyte, in this
// package's layout. It is safe for concurrent use.
//
// It says "surely new" only while it is whole. It says "maybe" to every id:
//
//   - until a Rebuild has ended, or MarkWhole was called
//   - after the server has restarted or another one has replaced it (a failover, a slot that
//     moved), since it may have lost the latest ids
//   - after some of its keys were evicted or deleted, from the first call that misses one
//
// While the server is unavailable or refuses calls, every call returns an error, and no id is
// surely new. Windows follow the server's clock: if it jumps ahead, ids are forgotten early.
type RedisBloom struct {
	*redisFilter
	shape redisShape
	args  []string
}

// NewRedisBloom returns a filter with a name. All processes that use a name must use the same
// options; otherwise calls are refused. It does not connect.
func NewRedisBloom(c redisclient.Client, name string, options *Options) (*RedisBloom, error) {
	o, err := copyOptions(options).withDefaults()
	if err == nil {
		err = checkWindowUnit(&o)
	}
	if err != nil {
		return nil, err
	}
	b := &RedisBloom{shape: o.newRedisShape(1<<16-1, 1<<23)}
	if err := o.checkSize(b.shape.bytes()); err != nil {
		return nil, err
	}
	if b.shape.bits > 1<<32-64 {
		return nil, fmt.Errorf("filter: %d ids with %v are too many for one name on Redis; use several", o.Items, o.FalsePositive)
	}
	b.args = []string{strconv.Itoa(b.shape.parts), strconv.FormatUint(uint64(b.shape.bits), 10), strconv.FormatUint(uint64(b.shape.k), 10)}
	b.redisFilter, err = newRedisFilter(c, name, fmt.Sprintf("bloom1 %s %s %s", b.args[0], b.args[1], b.args[2]), o)
	if err != nil {
		return nil, err
	}
	return b, nil
}

// partOf uses another hash than the bits within the part.
func partOf(id []byte, parts int) int {
	return int(metro.Hash64(id, 0x7e74) % uint64(parts)) //nolint:gosec // parts is positive and small
}

// encodePlaces returns the part of each id and its bits, in the format of the scripts.
func (b *RedisBloom) encodePlaces(ids [][]byte) []string {
	all := make([]string, len(ids))
	buf := make([]byte, 0, 2+4*b.shape.k)
	for i, id := range ids {
		buf = binary.BigEndian.AppendUint16(buf[:0], uint16(partOf(id, b.shape.parts))) //nolint:gosec // at most 65535 parts
		for _, at := range bloom.Locations(id, b.shape.k) {
			buf = binary.BigEndian.AppendUint32(buf, uint32(at%uint64(b.shape.bits))) //nolint:gosec // bounded by NewRedisBloom
		}
		all[i] = string(buf)
	}
	return all
}

// Add adds id and reports whether it was surely new, in one step on the server: of concurrent calls
// with the same id, in any process, only one gets true. Call Add before the work. If it returns an
// error, the id is not surely new, and it is unknown whether it was added; a second try is safe.
func (b *RedisBloom) Add(ctx context.Context, id []byte) (surelyNew bool, err error) {
	yes, err := b.AddBatch(ctx, [][]byte{id})
	return yes[0], err
}

// AddBatch is Add for many ids, in one round trip if the client is a redisclient.Pipeliner. It is
// no transaction: each step adds up to 256 ids.
func (b *RedisBloom) AddBatch(ctx context.Context, ids [][]byte) (surelyNew []bool, err error) {
	surelyNew, err = b.runForAll(ctx, bloomAdd, b.args, b.encodePlaces(ids))
	b.countAdded(surelyNew)
	return surelyNew, err
}

// MaybeSeen reports whether id may have been added, and adds nothing. With an error it returns
// true.
func (b *RedisBloom) MaybeSeen(ctx context.Context, id []byte) (bool, error) {
	maybe, err := b.MaybeSeenBatch(ctx, [][]byte{id})
	return maybe[0], err
}

// MaybeSeenBatch is MaybeSeen for many ids. With an error all are true.
func (b *RedisBloom) MaybeSeenBatch(ctx context.Context, ids [][]byte) ([]bool, error) {
	maybe, err := b.runForAll(ctx, bloomLook, b.args, b.encodePlaces(ids))
	for i := range maybe {
		maybe[i] = !maybe[i]
	}
	return maybe, err
}

// Rebuild is like [Bloom.Rebuild], for all processes. It can run during their calls, and several
// concurrent rebuilds are safe. [ErrLost] means that the server has lost ids meanwhile.
func (b *RedisBloom) Rebuild(ctx context.Context, ids iter.Seq2[[]byte, error], progress func(n int)) (n int, err error) {
	return b.rebuild(ctx, ids, progress, func(batch [][]byte) error {
		_, err := b.runForAll(ctx, bloomAdd, b.args, b.encodePlaces(batch))
		return err
	})
}

// Stats returns the counters of this process; the rest is from the server. Rotations are not
// counted.
func (b *RedisBloom) Stats(ctx context.Context) (Stats, error) {
	s, ids, err := b.fetchStats(ctx)
	if err != nil {
		return s, err
	}
	s.setEstimates(b.shape, ids, b.o.Items)
	return s, nil
}
