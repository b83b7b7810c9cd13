package linear

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// linearCaller makes random calls for one key and records what it got.
type linearCaller struct {
	id     int
	store  storeapi.Store
	key    storeapi.StoreKey
	random *rand.Rand
	begun  time.Time
	// cuts returns what was lost so far, for a client that sends again by itself: a call may then
	// have been applied once more.
	cuts func() int64

	owner storeapi.Owner
	fence retrysafe.Fence
	seen  retrysafe.Fence // by a Lookup
	ops   []porcupine.Operation
}

func (c *linearCaller) recordCall(ctx context.Context, request any, call func(context.Context) (storeapi.Acquired, error)) storeapi.Acquired {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	op := porcupine.Operation{ClientId: c.id, Input: linearCall{request}, Call: time.Since(c.begun).Nanoseconds()}
	before := c.cuts()
	got, err := call(ctx)
	told := linearReply{status: got.Status, rec: got.Record, lost: errors.Is(err, retrysafe.ErrLeaseLost)}
	told.unknown = err != nil && !told.lost
	op.Output, op.Return = told, time.Since(c.begun).Nanoseconds()
	c.ops = append(c.ops, op)
	for range min(c.cuts()-before, 3) {
		op.Output = linearReply{unknown: true}
		c.ops = append(c.ops, op)
	}
	return got
}

func (c *linearCaller) runStep(ctx context.Context) {
	switch n := c.random.IntN(20); {
	case n < 7:
		if c.random.IntN(3) > 0 { // else the same as before, as after a lost reply
			c.owner = storeapi.Owner{byte(c.id + 1), byte(c.random.IntN(256)), byte(c.random.IntN(256))}
		}
		req := storeapi.AcquireRequest{
			Key: c.key, Owner: c.owner, Lease: time.Hour, Retention: 24 * time.Hour, OnDoubt: retrysafe.Refuse, Fingerprint: []byte{1, byte(c.random.IntN(8) / 7)},
		}
		if c.random.IntN(4) == 0 {
			req.OnDoubt = retrysafe.Reexecute
		}
		if c.seen != 0 && c.random.IntN(3) == 0 {
			req.IfFence, req.Force = c.seen, c.random.IntN(2) == 0
		}
		got := c.recordCall(ctx, req, func(ctx context.Context) (storeapi.Acquired, error) { return c.store.Acquire(ctx, req) })
		if got.Status == storeapi.StatusAcquired {
			c.fence = got.Record.Fence
		}
	case n < 10:
		req := storeapi.CompleteRequest{
			Key: c.key, Owner: c.owner, Fence: c.fence, State: retrysafe.StateCompleted,
			Answer: retrysafe.Answer{Codec: "raw", Kept: true, Body: fmt.Appendf(nil, "%d of caller %d", len(c.ops), c.id)},
		}
		if c.random.IntN(3) > 0 {
			req.State = retrysafe.StateFailed // which can be reopened
		}
		c.recordCall(ctx, req, func(ctx context.Context) (a storeapi.Acquired, err error) {
			a.Record, err = c.store.Complete(ctx, req)
			return a, err
		})
	case n < 14:
		req := storeapi.ReleaseRequest{Key: c.key, Owner: c.owner, Fence: c.fence, InDoubt: c.random.IntN(3) == 0, Cause: "a cause"}
		c.recordCall(ctx, req, func(ctx context.Context) (storeapi.Acquired, error) {
			return storeapi.Acquired{}, c.store.Release(ctx, req)
		})
	case n < 16:
		req := storeapi.ExtendRequest{Key: c.key, Owner: c.owner, Fence: c.fence, Lease: time.Hour}
		c.recordCall(ctx, req, func(ctx context.Context) (storeapi.Acquired, error) {
			return storeapi.Acquired{}, c.store.Extend(ctx, req)
		})
	default:
		got := c.recordCall(ctx, nil, func(ctx context.Context) (a storeapi.Acquired, err error) {
			a.Record, err = c.store.Lookup(ctx, c.key)
			return a, err
		})
		c.seen = got.Record.Fence
	}
}

// History runs callers on one key. A call whose outcome is unknown may take effect until the
// history is over.
func History(t *testing.T, s func(caller int) storeapi.Store, key storeapi.StoreKey, seed uint64, cuts func() int64) (ops []porcupine.Operation, unknown int) {
	t.Helper()
	const callers, steps = 4, 14
	begun := time.Now()
	all := make([]*linearCaller, callers)
	var wait sync.WaitGroup
	for i := range all {
		c := &linearCaller{id: i, store: s(i), key: key, random: rand.New(rand.NewPCG(seed, uint64(i))), begun: begun, cuts: cuts}
		all[i] = c
		wait.Go(func() {
			for range steps {
				c.runStep(t.Context())
			}
		})
	}
	wait.Wait()
	end := time.Since(begun).Nanoseconds()
	for _, c := range all {
		for _, op := range c.ops {
			if op.Output.(linearReply).unknown { //nolint:errcheck,forcetypeassert // it is
				op.Return = end
				unknown++
			}
			ops = append(ops, op)
		}
	}
	return ops, unknown
}
