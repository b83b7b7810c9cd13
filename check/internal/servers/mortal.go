package servers

import (
	"context"

	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// mortalStore is a store as one process reaches it: once the process was killed, no call of it
// arrives.
type mortalStore struct {
	storeapi.Store
	process *process
}

func (m mortalStore) Acquire(ctx context.Context, r storeapi.AcquireRequest) (a storeapi.Acquired, err error) {
	err = m.process.runUnlessKilled(func() (err error) { a, err = m.Store.Acquire(ctx, r); return err })
	return a, err
}

func (m mortalStore) Extend(ctx context.Context, r storeapi.ExtendRequest) error {
	return m.process.runUnlessKilled(func() error { return m.Store.Extend(ctx, r) })
}

func (m mortalStore) Complete(ctx context.Context, r storeapi.CompleteRequest) (stored storeapi.Record, err error) {
	err = m.process.runUnlessKilled(func() (err error) { stored, err = m.Store.Complete(ctx, r); return err })
	return stored, err
}

func (m mortalStore) Release(ctx context.Context, r storeapi.ReleaseRequest) error {
	return m.process.runUnlessKilled(func() error { return m.Store.Release(ctx, r) })
}

func (m mortalStore) Lookup(ctx context.Context, k storeapi.StoreKey) (found storeapi.Record, err error) {
	err = m.process.runUnlessKilled(func() (err error) { found, err = m.Store.Lookup(ctx, k); return err })
	return found, err
}
