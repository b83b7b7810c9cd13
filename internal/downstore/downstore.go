// Package downstore has a store for tests that can be made unavailable.
package downstore

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// ErrDown is the error of a call while the store is down. Callers must not learn the host.
var ErrDown = errors.New("connection refused by secret-host:5432")

// Store is a store whose Acquire, Lookup and Complete fail while Down is set.
type Store struct {
	storeapi.Store
	Down atomic.Bool
}

// Acquire implements [storeapi.Store].
func (s *Store) Acquire(ctx context.Context, r storeapi.AcquireRequest) (storeapi.Acquired, error) {
	if s.Down.Load() {
		return storeapi.Acquired{}, ErrDown
	}
	return s.Store.Acquire(ctx, r)
}

// Lookup implements [storeapi.Store].
func (s *Store) Lookup(ctx context.Context, k storeapi.StoreKey) (storeapi.Record, error) {
	if s.Down.Load() {
		return storeapi.Record{}, ErrDown
	}
	return s.Store.Lookup(ctx, k)
}

// Complete implements [storeapi.Store].
func (s *Store) Complete(ctx context.Context, r storeapi.CompleteRequest) (storeapi.Record, error) {
	if s.Down.Load() {
		return storeapi.Record{}, ErrDown
	}
	return s.Store.Complete(ctx, r)
}
