package sealstore

import (
	"context"
	"errors"

	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// TxStore is a [storeapi.TxStore] and a [storeapi.StepStore] that seals what it passes to another
// one, for retrysafe.DoTx and retrysafe.StepTx. It is safe for concurrent use.
//
// A tenant's data key is read before the transaction begins, so Keys may be in the same database.
type TxStore[Tx any] struct {
	store *Store
	inner storeapi.TxStore[Tx]
}

// NewTx returns a TxStore with the keys of s. inner runs transactions on the database of the store
// that s wraps, as sqlstore.Store, its In, and pgxidem.DB do.
func NewTx[Tx any](s *Store, inner storeapi.TxStore[Tx]) *TxStore[Tx] {
	return &TxStore[Tx]{store: s, inner: inner}
}

// RunTx implements [storeapi.TxStore].
func (t *TxStore[Tx]) RunTx(ctx context.Context, r storeapi.TxRequest, work func(context.Context, Tx) (storeapi.State, storeapi.Answer, error)) (storeapi.Record, error) {
	if err := checkKey(&r.Key); err != nil {
		return storeapi.Record{}, err
	}
	// Without a key, duplicates of finished work are answered, and work does not run.
	k, noKey := t.store.sealingKey(ctx, tenantOf(&r.Key))
	var plain, sealed storeapi.Answer
	rec, err := t.inner.RunTx(ctx, r, func(ctx context.Context, tx Tx) (storeapi.State, storeapi.Answer, error) {
		if noKey != nil {
			return 0, storeapi.Answer{}, keysFailed(noKey)
		}
		state, answer, err := work(ctx, tx)
		if err != nil {
			return state, answer, err
		}
		plain, sealed = answer, answer
		if !hasNothingToSeal(&answer) {
			sealed = sealAnswer(k, &r.Key, kindOf(state), &answer)
		}
		return state, sealed, nil
	})
	switch {
	case err != nil:
		return rec, err
	case rec.Owner == r.Owner:
		return t.store.openCompleted(ctx, rec, &sealed, &plain)
	}
	err = t.store.openRecord(ctx, &rec) // of an earlier call
	return rec, err
}

// StepTx implements [storeapi.StepStore], if the inner store does.
func (t *TxStore[Tx]) StepTx(ctx context.Context, r storeapi.StepRequest, work func(context.Context, Tx) (storeapi.Answer, error)) error {
	inner, ok := t.inner.(storeapi.StepStore[Tx])
	if !ok {
		return errors.ErrUnsupported
	}
	if err := checkKey(&r.Key); err != nil {
		return err
	}
	k, err := t.store.sealingKey(ctx, tenantOf(&r.Key))
	if err != nil {
		return keysFailed(err)
	}
	return inner.StepTx(ctx, r, func(ctx context.Context, tx Tx) (storeapi.Answer, error) {
		progress, err := work(ctx, tx)
		if err != nil || hasNothingToSeal(&progress) {
			return progress, err
		}
		return sealAnswer(k, &r.Key, forProgress, &progress), nil
	})
}

// Lookup returns a record, opened. If there are limits, the engine uses it to find out whether a
// key is known, and Charge to count the key.
func (t *TxStore[Tx]) Lookup(ctx context.Context, key storeapi.StoreKey) (storeapi.Record, error) {
	inner, ok := t.inner.(interface {
		Lookup(context.Context, storeapi.StoreKey) (storeapi.Record, error)
	})
	if !ok {
		return t.store.Lookup(ctx, key)
	}
	rec, err := inner.Lookup(ctx, key)
	if err == nil {
		err = t.store.openRecord(ctx, &rec)
	}
	return rec, err
}

// Charge counts what a tenant uses, as the inner store does.
func (t *TxStore[Tx]) Charge(ctx context.Context, req storeapi.ChargeRequest) (storeapi.Charged, error) {
	if inner, ok := t.inner.(storeapi.Limiter); ok {
		return inner.Charge(ctx, req)
	}
	return t.store.Charge(ctx, req)
}

// Usage reads what a tenant uses, as the inner store does.
func (t *TxStore[Tx]) Usage(ctx context.Context, req storeapi.UsageRequest) (storeapi.Usage, error) {
	if inner, ok := t.inner.(storeapi.UsageReader); ok {
		return inner.Usage(ctx, req)
	}
	return t.store.Usage(ctx, req)
}
