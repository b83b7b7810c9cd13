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

// RedisHyperLogLog is [HyperLogLog] by PFADD, whose reply tells whether a register has changed: 12
// KiB for each window, shared by processes. When it says maybe to all is as for [RedisBloom]. PFADD
// cannot be asked without adding, so there is no MaybeSeen. It is safe for concurrent use.
type RedisHyperLogLog struct{ *shared }

// NewRedisHyperLogLog makes one of that name. Of the options Items, FalsePositive and Precision are
// not used. It does not connect.
func NewRedisHyperLogLog(c redisclient.Client, name string, o Options) (*RedisHyperLogLog, error) {
	o.Items, o.FalsePositive, o.Precision = 1, 0, 0
	o, err := o.checked()
	if err == nil {
		err = windowsFit(&o)
	}
	if err != nil {
		return nil, err
	}
	s, err := newShared(c, name, "hll1", o)
	if err != nil {
		return nil, err
	}
	return &RedisHyperLogLog{s}, nil
}

// Add is as [RedisBloom.Add].
func (h *RedisHyperLogLog) Add(ctx context.Context, id []byte) (surelyNew bool, err error) {
	yes, err := h.AddBatch(ctx, [][]byte{id})
	return yes[0], err
}

// AddBatch is as [RedisBloom.AddBatch].
func (h *RedisHyperLogLog) AddBatch(ctx context.Context, ids [][]byte) (surelyNew []bool, err error) {
	surelyNew, err = h.many(ctx, hllAdd, nil, texts(ids))
	h.count(surelyNew)
	return surelyNew, err
}

// Rebuild is as [RedisBloom.Rebuild].
func (h *RedisHyperLogLog) Rebuild(ctx context.Context, ids iter.Seq2[[]byte, error], progress func(n int)) (n int, err error) {
	return h.rebuild(ctx, ids, progress, func(batch [][]byte) error {
		_, err := h.many(ctx, hllAdd, nil, texts(batch))
		return err
	})
}

// Stats has the counters of this process, and whether the filter is whole.
func (h *RedisHyperLogLog) Stats(ctx context.Context) (Stats, error) {
	s, _, err := h.stats(ctx)
	return s, err
}

func texts(ids [][]byte) []string {
	all := make([]string, len(ids))
	for i, id := range ids {
		all[i] = string(id)
	}
	return all
}
