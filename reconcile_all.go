package retrysafe

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe/internal/storecall"
	"github.com/retrysafe/retrysafe/storeapi"
)

// ReconcileAll calls [Policy].Reconcile for the keys of an operation that are in doubt, one after
// the other. An empty operation means all operations of the engine's layer. It returns how many
// keys were resolved: completed, failed, or released to the next call. Keys that have not been in
// doubt long enough, or stay in doubt, are left for the next time: run it every few minutes, in any
// number of processes.
//
// Errors: one that wraps errors.ErrUnsupported (the store does not list), [ErrUnreadable] (all
// other records were handled), [ErrUnavailable], [ErrClosed], and the error of ctx.
func (e *Engine) ReconcileAll(ctx context.Context, operation string) (resolved int, err error) {
	return e.reconcileAll(ctx, operation, e.defaults)
}

// ReconcileAll is like [Engine.ReconcileAll], for this operation.
func (o *Operation[In, Out]) ReconcileAll(ctx context.Context) (resolved int, err error) {
	return o.engine.reconcileAll(ctx, o.name, &o.options)
}

func (e *Engine) reconcileAll(ctx context.Context, operation string, o *callOptions) (resolved int, err error) {
	if o.policy.Reconcile == nil {
		return 0, &Error{Op: operation, Err: errNoReconcile}
	}
	lister, ok := e.c.store.Inner().(storeapi.Lister)
	if !ok {
		return 0, &Error{Op: operation, Err: fmt.Errorf("the store does not list records: %w", errors.ErrUnsupported)}
	}
	req := storeapi.ListRequest{Namespace: e.c.namespace, Layer: e.layer, Operation: operation, InDoubt: true}
	var unreadable error
	for {
		page, err := lister.List(ctx, req)
		if err != nil {
			return resolved, &Error{Op: operation, Err: storecall.Unavailable(err), RetryAfter: time.Second}
		}
		for i := range page.Records {
			done, err := e.c.reconcileOne(ctx, &page.Records[i], o)
			if done {
				resolved++
			}
			if err != nil && !errors.Is(err, ErrInDoubt) {
				return resolved, err
			}
		}
		if len(page.Unreadable) > 0 && unreadable == nil {
			unreadable = &Error{Op: operation, Key: e.c.keyHash(page.Unreadable[0].Key), Err: fmt.Errorf("%w: %w", ErrUnreadable, page.Unreadable[0].Err)}
		}
		if req.After = page.Next; page.Next == "" {
			return resolved, errors.Join(ctx.Err(), unreadable)
		}
	}
}

// reconcileOne reconciles one record, if it can.
func (c *core) reconcileOne(ctx context.Context, rec *Record, o *callOptions) (resolved bool, err error) {
	if !c.enter() {
		return false, c.wrap(rec.Key, rec.Attempt, ErrClosed, time.Second)
	}
	var v verdict
	defer func() {
		if v.attempt == nil {
			c.life.Leave()
		}
	}()
	v, err = c.reconcile(ctx, rec, o)
	if v.attempt == nil {
		return v.settled, err
	}
	v.attempt.unattended = true
	err = v.attempt.Release(ctx, nil) // no caller here can run the work: the next call does
	return err == nil, err
}

var errNoReconcile = errors.New("the policy has no Reconcile; set it on the operation or the engine")
