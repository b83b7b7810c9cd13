package shardstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/retrysafe/retrysafe/storeapi"
)

// TxStore runs the transactions of retrysafe.DoTx on the databases of the shards. Each runs on
// the home of its key, and fn does its work there too. It is safe for concurrent use.
//
// While a key moves, its transactions run at the old home; [Change] copies their records at the
// end. Before it commits, a transaction looks at the newest map under a lock. It is rolled back if
// its key has left that home, or is about to leave. So however long a transaction takes, none
// commits at a former home of its key. For the last one or two leases of a move (10 to 20 s), keys
// that move get [storeapi.ErrUnavailable]. Finished work is answered all the time.
//
// It costs two additional statements for each transaction.
type TxStore[Tx any] struct {
	store  *Store
	shards map[string]storeapi.TxStore[Tx]
}

// NewTx returns a TxStore over shards, by their names in s. Each must run transactions on the
// database of the store with that name, and that store must be a [storeapi.TxWaiter], as those of
// sqlstore are. shards must have all shards of s.
func NewTx[Tx any](s *Store, shards map[string]storeapi.TxStore[Tx]) (*TxStore[Tx], error) {
	t := &TxStore[Tx]{store: s, shards: make(map[string]storeapi.TxStore[Tx], len(shards))}
	for _, name := range s.atlas.names() {
		if shards[name] == nil {
			return nil, fmt.Errorf("shardstore: shard %q has no TxStore; each shard needs one, since any key may move there", name)
		}
		if _, ok := s.atlas[name].(storeapi.TxWaiter); !ok {
			return nil, fmt.Errorf("shardstore: the store of shard %q is no storeapi.TxWaiter, so that a change of shards could not wait for its transactions: %w",
				name, errors.ErrUnsupported)
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

// shardOf is the context key of the shard's name.
type shardOf struct{}

// ShardOf returns the name of the shard on whose database a transaction of a [TxStore] runs, given
// the context of its work, and "" for any other context.
func ShardOf(ctx context.Context) string {
	name, _ := ctx.Value(shardOf{}).(string)
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
	if err := check(ctx, r.Key); err != nil {
		return storeapi.Record{}, err
	}
	if r.Gate != nil {
		return storeapi.Record{}, fmt.Errorf("shardstore: a transaction has one gate, which is that of the shards: %w", errors.ErrUnsupported)
	}
	for range rounds {
		p, err := t.store.place(ctx, r.Key)
		if errors.Is(err, errMoved) {
			continue
		} else if err != nil {
			return storeapi.Record{}, err
		}
		worked := false
		req := r
		req.Gate = &storeapi.TxGate{Lock: txLock, Check: func(_ context.Context, lookup func(storeapi.StoreKey) (storeapi.Record, error)) error {
			return p.mayCommit(r.Key, lookup)
		}}
		rec, err := t.shards[p.name].RunTx(ctx, req, func(ctx context.Context, tx Tx) (storeapi.State, storeapi.Answer, error) {
			if p.moves() && p.m.Closing {
				return 0, storeapi.Answer{}, errClosing
			}
			worked = true
			return work(context.WithValue(ctx, shardOf{}, p.name), tx)
		})
		switch {
		case errors.Is(err, errClosing):
			return rec, fmt.Errorf("%w: the key is about to move from shard %q to %q; try again in %v", storeapi.ErrUnavailable, p.name, p.nextName, p.m.Lease)
		case !errors.Is(err, errMoved):
			return rec, err
		}
		t.store.forget(p.name)
		if worked && r.Retries == 0 {
			return rec, fmt.Errorf("%w: the key was about to leave shard %q when its transaction had done its work, and all was rolled back; try again", storeapi.ErrUnavailable, p.name)
		} else if worked {
			r.Retries--
		}
	}
	return storeapi.Record{}, errRestless
}

// txLock is the record that transactions lock shared and a change locks exclusively: the first map,
// which every shard has.
var txLock = mapKey(1)

// errClosing ends a transaction that found no answer and must not run.
var errClosing = errors.New("shardstore: the key is about to move")

// mayCommit checks, at the home of a key, whether it still is the home by the newest map there.
// errMoved means that it is not.
func (p *place) mayCommit(key storeapi.StoreKey, lookup func(storeapi.StoreKey) (storeapi.Record, error)) error {
	m := p.m
	for {
		rec, err := lookup(mapKey(m.Number + 1))
		if err != nil {
			return err
		}
		if rec.State != storeapi.StateCompleted {
			break
		}
		if m, err = parseMap(p.name, m.Number+1, &rec.Answer); err != nil {
			return err
		}
	}
	home, next := m.Home(key)
	if home != p.name || home != next && m.Closing {
		return errMoved
	}
	return nil
}
