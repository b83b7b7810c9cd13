package storetest

import (
	"context"
	"errors"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// notifyClause: a watcher of a key is notified when it listens, and when an attempt ends, whichever
// handle ends it.
func notifyClause(e *env) {
	for name, end := range map[string]func(*env, storeapi.Store, storeapi.Record) error{
		"completed": func(e *env, s storeapi.Store, r storeapi.Record) error {
			_, err := s.Complete(e.ctx, completeRequest(r, "answer"))
			return err
		},
		"released": func(e *env, s storeapi.Store, r storeapi.Record) error {
			return s.Release(e.ctx, storeapi.ReleaseRequest{Key: r.Key, Owner: r.Owner, Fence: r.Fence})
		},
		"in doubt": func(e *env, s storeapi.Store, r storeapi.Record) error {
			return s.Release(e.ctx, storeapi.ReleaseRequest{Key: r.Key, Owner: r.Owner, Fence: r.Fence, InDoubt: true})
		},
	} {
		e.runSubtest(name, func(e *env) {
			other := e.Store
			if e.Reopen != nil {
				other = e.Reopen()
			}
			first := e.claim(e.newRequest(e.key()))
			ctx, cancel := context.WithCancel(e.ctx)
			defer cancel()
			told, ended := make(chan struct{}, 100), make(chan error, 1)
			n, _ := e.Store.(storeapi.Notifier)
			go func() {
				ended <- n.Watch(ctx, first.Key, func() {
					select {
					case told <- struct{}{}:
					default:
					}
				})
			}()
			wantNotified(e, told, "that it listens")
			assert.NoError(e, end(e, other, first), "the end")
			wantNotified(e, told, "the end")
			cancel()
			select {
			case err := <-ended:
				assert.True(e, err == nil || errors.Is(err, context.Canceled), "Watch ends with its context: %v", err)
			case <-time.After(e.f.Grace):
				e.Errorf("Watch goes on after its context has ended")
			}
		})
	}
}

func wantNotified(e *env, told <-chan struct{}, what string) {
	e.Helper()
	select {
	case <-told:
	case <-time.After(e.f.Grace):
		e.Fatalf("the watcher was not told %s within %v", what, e.f.Grace)
	}
}
