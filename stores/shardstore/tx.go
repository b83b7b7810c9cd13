package shardstore

import (
	"context"
	"fmt"

	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// TxStore runs the transactions of retrysafe.DoTx on the databases of the shards. Each runs on the
// home of its key, and fn does its work there too. It is safe for concurrent use.
type TxStore[Tx any] struct {
	store  *Store
	shards map[string]storeapi.TxStore[Tx]
}

// NewTx returns a TxStore over shards, by their names in s. Each must run transactions on the
// database of the store with that name. shards must have all shards of s.
func NewTx[Tx any](s *Store, shards map[string]storeapi.TxStore[Tx]) (*TxStore[Tx], error) {
	t := &TxStore[Tx]{store: s, shards: make(map[string]storeapi.TxStore[Tx], len(shards))}
	for _, name := range s.names {
		if shards[name] == nil {
			return nil, fmt.Errorf("shardstore: shard %q has no TxStore; each shard needs one", name)
		}
		t.shards[name] = shards[name]
	}
	for name := range shards {
		if t.shards[name] == nil {
			return nil, fmt.Errorf("shardstore: there is a TxStore of %q, and no such shard", name)
		}
	}
	return t, nil
}

// shardContextKey is the context key of the shard's name.
type shardContextKey struct{}

// ShardOf returns the name of the shard on whose database a transaction of a [TxStore] runs, given
// the context of its work, and "" for any other context.
func ShardOf(ctx context.Context) string {
	name, _ := ctx.Value(shardContextKey{}).(string)
	return name
}

// Lookup calls the store's Lookup. If there are limits, the engine uses it to find out whether a
// key is known, and Charge to count the key.
func (t *TxStore[Tx]) Lookup(ctx context.Context, key storeapi.StoreKey) (storeapi.Record, error) {
	return t.store.Lookup(ctx, key)
}

// Charge calls the store's Charge.
func (t *TxStore[Tx]) Charge(ctx context.Context, req storeapi.ChargeRequest) (storeapi.Charged, error) {
	return t.store.Charge(ctx, req)
}

// Usage calls the store's Usage.
func (t *TxStore[Tx]) Usage(ctx context.Context, req storeapi.UsageRequest) (storeapi.Usage, error) {
	return t.store.Usage(ctx, req)
}

// RunTx implements [storeapi.TxStore].
func (t *TxStore[Tx]) RunTx(ctx context.Context, r storeapi.TxRequest, work func(context.Context, Tx) (storeapi.State, storeapi.Answer, error)) (storeapi.Record, error) {
	name, _, err := t.store.homeShard(ctx, r.Key)
	if err != nil {
		return storeapi.Record{}, err
	}
	return t.shards[name].RunTx(ctx, r, func(ctx context.Context, tx Tx) (storeapi.State, storeapi.Answer, error) {
		return work(context.WithValue(ctx, shardContextKey{}, name), tx)
	})
}
