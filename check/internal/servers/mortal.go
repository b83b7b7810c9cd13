package servers

import (
	"context"

	"github.com/retrysafe/retrysafe/storeapi"
)

// mortal is a store as one process reaches it: once the process was killed, no call of it arrives.
type mortal struct {
	storeapi.Store
	process *process
}

func (m mortal) Acquire(ctx context.Context, r storeapi.AcquireRequest) (a storeapi.Acquired, err error) {
	err = m.process.act(func() (err error) { a, err = m.Store.Acquire(ctx, r); return err })
	return a, err
}

func (m mortal) Extend(ctx context.Context, r storeapi.ExtendRequest) error {
	return m.process.act(func() error { return m.Store.Extend(ctx, r) })
}

func (m mortal) Complete(ctx context.Context, r storeapi.CompleteRequest) (stored storeapi.Record, err error) {
	err = m.process.act(func() (err error) { stored, err = m.Store.Complete(ctx, r); return err })
	return stored, err
}

func (m mortal) Release(ctx context.Context, r storeapi.ReleaseRequest) error {
	return m.process.act(func() error { return m.Store.Release(ctx, r) })
}

func (m mortal) Lookup(ctx context.Context, k storeapi.StoreKey) (found storeapi.Record, err error) {
	err = m.process.act(func() (err error) { found, err = m.Store.Lookup(ctx, k); return err })
	return found, err
}
