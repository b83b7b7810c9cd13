package filter

import (
	"context"
	_ "embed"
	"iter"

	"github.com/retrysafe/retrysafe/redisclient"
)

//go:embed lua/hll_add.lua
var hllAddLua string

var hllAdd = redisclient.NewScript("filter-hll-add", "#!lua\n"+headLua+writeLua+hllAddLua)

// RedisHyperLogLog is a [HyperLogLog] that processes share. It uses PFADD, whose reply tells
// whether a register has changed. It takes 12 KiB for each window. It says maybe to every id in the
// same cases as [RedisBloom]. PFADD cannot test without adding, so there is no MaybeSeen. It is
// safe for concurrent use.
type RedisHyperLogLog struct{ *redisFilter }

// NewRedisHyperLogLog returns one with a name. It ignores Items, FalsePositive and Precision. It
// does not connect.
func NewRedisHyperLogLog(c redisclient.Client, name string, options *Options) (*RedisHyperLogLog, error) {
	o := copyOptions(options)
	o.Items, o.FalsePositive, o.Precision = 1, 0, 0
	o, err := o.withDefaults()
	if err == nil {
		err = checkWindowUnit(&o)
	}
	if err != nil {
		return nil, err
	}
	s, err := newRedisFilter(c, name, "hll1", o)
	if err != nil {
		return nil, err
	}
	return &RedisHyperLogLog{s}, nil
}

// Add is like [RedisBloom.Add].
func (h *RedisHyperLogLog) Add(ctx context.Context, id []byte) (surelyNew bool, err error) {
	yes, err := h.AddBatch(ctx, [][]byte{id})
	return yes[0], err
}

// AddBatch is like [RedisBloom.AddBatch].
func (h *RedisHyperLogLog) AddBatch(ctx context.Context, ids [][]byte) (surelyNew []bool, err error) {
	surelyNew, err = h.runForAll(ctx, hllAdd, nil, toStrings(ids))
	h.countAdded(surelyNew)
	return surelyNew, err
}

// Rebuild is like [RedisBloom.Rebuild].
func (h *RedisHyperLogLog) Rebuild(ctx context.Context, ids iter.Seq2[[]byte, error], progress func(n int)) (n int, err error) {
	return h.rebuild(ctx, ids, progress, func(batch [][]byte) error {
		_, err := h.runForAll(ctx, hllAdd, nil, toStrings(batch))
		return err
	})
}

// Stats returns the counters of this process, and whether the filter is whole.
func (h *RedisHyperLogLog) Stats(ctx context.Context) (Stats, error) {
	s, _, err := h.fetchStats(ctx)
	return s, err
}

func toStrings(ids [][]byte) []string {
	all := make([]string, len(ids))
	for i, id := range ids {
		all[i] = string(id)
	}
	return all
}
