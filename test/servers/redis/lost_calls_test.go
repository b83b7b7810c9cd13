package redis_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/redisstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
	"github.com/retrysafe/retrysafe/test/servers/internal/teststores"
	"github.com/retrysafe/retrysafe/test/servers/internal/waits"
)

// lossy is an engine behind a proxy that loses messages.
type lossy struct {
	p     *servers.RedisProxy
	store *redisstore.Store
	e     *retrysafe.Engine
	work  work
}

// startKnowing starts a server that knows all scripts, so that a loss hits a run, and not the reply
// that a script is unknown.
func startKnowing(t *testing.T) *servers.Redis {
	t.Helper()
	server := servers.StartRedis(t)
	s := teststores.Redis(t, servers.RueidisTo(t, server.Addr), nil)
	key := teststores.OrderStoreKey("known")
	got, err := s.Acquire(t.Context(), storeapi.AcquireRequest{Key: key, Owner: storeapi.Owner{1}, Lease: time.Minute, Retention: time.Hour, OnDoubt: retrysafe.Refuse})
	assert.NoError(t, err, "acquire")
	fence := got.Record.Fence
	assert.NoError(t, s.Extend(t.Context(), storeapi.ExtendRequest{Key: key, Owner: storeapi.Owner{1}, Fence: fence, Lease: time.Minute}), "extend")
	_, err = s.Complete(t.Context(), storeapi.CompleteRequest{Key: key, Owner: storeapi.Owner{1}, Fence: fence, State: retrysafe.StateCompleted})
	assert.NoError(t, err, "complete")
	err = s.Release(t.Context(), storeapi.ReleaseRequest{Key: key, Owner: storeapi.Owner{1}, Fence: fence})
	assert.ErrorIs(t, err, retrysafe.ErrLeaseLost, "release of what is completed")
	_, err = s.Lookup(t.Context(), key)
	assert.NoError(t, err, "look")
	_, err = s.Issue(t.Context(), storeapi.IssueRequest{Key: key, Owner: storeapi.Owner{1}, Retention: time.Hour})
	assert.NoError(t, err, "issue")
	_, err = s.Charge(t.Context(), storeapi.ChargeRequest{Namespace: "app", Tenant: "known", Keys: 1, For: time.Hour})
	assert.NoError(t, err, "charge")
	return server
}

func newLossy(t *testing.T, p *servers.RedisProxy, adapter string, policy retrysafe.Policy) *lossy {
	t.Helper()
	l := &lossy{p: p, store: teststores.Redis(t, p.Through(t, adapter), nil)}
	l.e = teststores.ShortEngine(t, l.store, policy)
	return l
}

// wantOnce checks that a key whose work has run once gets its first answer, and that nothing is in
// doubt.
func (l *lossy) wantOnce(t *testing.T, id string) {
	t.Helper()
	l.p.SetHook(nil)
	res, err := retrysafe.Do(t.Context(), l.e, teststores.OrderKey(id), l.work.run)
	assert.NoError(t, err, "a repeat")
	assert.Equal(t, res.Value, int64(1), "answer of a repeat")
	assert.True(t, res.Replayed && res.Attempt == 1, "a repeat is told the first answer: %+v", res)
	assert.Equal(t, l.work.runs.Load(), int64(1), "runs")
	l.wantNoDoubt(t, id)
}

// wantNoDoubt checks the list of doubts, as an operator would. Other tests use the server too.
func (l *lossy) wantNoDoubt(t *testing.T, id string) {
	t.Helper()
	for _, rec := range listInDoubt(t, l.store) {
		assert.True(t, rec.Key.ID != id, "in doubt: %v", rec)
	}
}

// TestRedisLostOnce loses one request or one reply of each script. The affected call succeeds, its
// work runs once, and duplicates get its answer: a call that is sent again, by the engine or by the
// client itself, is recognized by its owner.
func TestRedisLostOnce(t *testing.T) {
	t.Parallel()
	server := startKnowing(t)
	for adapter := range servers.RedisClients {
		for _, loss := range servers.Losses {
			for _, script := range []string{"acquire", "extend", "complete", "lookup", "release"} {
				t.Run(fmt.Sprint(adapter, " ", loss.Name, " of ", script), func(t *testing.T) {
					t.Parallel()
					var policy retrysafe.Policy
					if script == "extend" {
						policy.Lease = 10 * time.Second // heartbeats are sent after a third of it
					}
					l := newLossy(t, servers.StartRedisProxy(t, server.Addr), adapter, policy)
					id := t.Name()
					l.p.SetHook(func(name string, n int) servers.Cut {
						if name == script && n == 1 {
							return loss.Cut
						}
						return 0
					})
					if script == "release" {
						_, err := retrysafe.Do(t.Context(), l.e, teststores.OrderKey(id), func(context.Context) (int64, error) {
							return 0, retrysafe.NothingDone(errFaultWork)
						})
						assert.ErrorIs(t, err, errFaultWork, "the first call")
						rec, err := l.store.Lookup(t.Context(), teststores.OrderStoreKey(id))
						assert.NoError(t, err, "look")
						assert.Equal(t, rec.State, retrysafe.StateReleased, "state after a call that did nothing")
					}
					res, err := retrysafe.Do(t.Context(), l.e, teststores.OrderKey(id), func(ctx context.Context) (int64, error) {
						if script == "extend" { // until a second heartbeat has succeeded
							waits.Eventually(t, "heartbeats", func() bool { return l.p.Ran("extend") >= 3 || ctx.Err() != nil })
						}
						assert.NoError(t, ctx.Err(), "the attempt's context")
						return l.work.run(ctx)
					})
					assert.NoError(t, err, "the call")
					assert.True(t, res.Stored && !res.Replayed, "it ran here and is stored: %+v", res)
					assert.True(t, l.p.Ran(script) > 1, "the script was sent again (%d)", l.p.Ran(script))
					if script == "release" {
						assert.Equal(t, res.Attempt, 2, "attempt after one that did nothing")
						return
					}
					l.wantOnce(t, id)
				})
			}
		}
	}
}

// TestRedisLostDoubt: the reply to "in doubt" is lost. The key is in doubt, with its cause.
func TestRedisLostDoubt(t *testing.T) {
	t.Parallel()
	server := startKnowing(t)
	for adapter := range servers.RedisClients {
		t.Run(adapter, func(t *testing.T) {
			t.Parallel()
			l := newLossy(t, servers.StartRedisProxy(t, server.Addr), adapter, retrysafe.Policy{})
			l.p.SetHook(func(name string, n int) servers.Cut {
				if name == "release" && n <= 2 {
					return servers.LoseReply
				}
				return 0
			})
			_, err := retrysafe.Do(t.Context(), l.e, teststores.OrderKey(adapter), func(context.Context) (int64, error) { return 0, errFaultWork })
			assert.ErrorIs(t, err, retrysafe.ErrInDoubt, "work that failed")
			_, err = retrysafe.Do(t.Context(), l.e, teststores.OrderKey(adapter), l.work.run)
			assert.ErrorIs(t, err, retrysafe.ErrInDoubt, "a repeat")
			assert.Equal(t, l.work.runs.Load(), int64(0), "runs of the repeat")
			rec, err := l.store.Lookup(t.Context(), teststores.OrderStoreKey(adapter))
			assert.NoError(t, err, "look")
			assert.Equal(t, rec.Cause, "error", "cause")
		})
	}
}

// TestRedisLostClaim: every reply to a claim is lost, or every request. The caller gets an error
// that the store is unavailable, and nothing runs. The key is released by itself, so the next call
// runs and nothing is in doubt.
func TestRedisLostClaim(t *testing.T) {
	t.Parallel()
	server := startKnowing(t)
	for adapter := range servers.RedisClients {
		for _, loss := range append(servers.Losses, servers.Loss{Name: "request, which comes late,", Cut: servers.LateRequest}) {
			t.Run(adapter+", "+loss.Name, func(t *testing.T) {
				t.Parallel()
				l := newLossy(t, servers.StartRedisProxy(t, server.Addr), adapter, retrysafe.Policy{})
				id := t.Name()
				// so that the clock is known
				_, err := l.e.Lookup(t.Context(), teststores.OrderKey(id))
				assert.ErrorIs(t, err, retrysafe.ErrNotFound, "look")
				l.p.SetHook(func(name string, _ int) servers.Cut {
					if name == "acquire" {
						return loss.Cut
					}
					return 0
				})
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				_, err = retrysafe.Do(ctx, l.e, teststores.OrderKey(id), l.work.run)
				assert.True(t, err != nil, "a call without an answer of the store")
				assert.Equal(t, l.work.runs.Load(), int64(0), "runs without an answer of the store")
				tries := l.p.Ran("acquire")
				l.p.SetHook(nil)
				if loss.Cut == servers.LateRequest {
					late := l.p.Deliver() // a client may have sent another one by now
					assert.True(t, late >= tries, "requests that come late: %d of %d", late, tries)
				}
				waits.Eventually(t, "the key is free", func() bool {
					rec, err := l.store.Lookup(t.Context(), teststores.OrderStoreKey(id))
					return err == nil && rec.State != retrysafe.StateInProgress
				})
				res, err := retrysafe.Do(t.Context(), l.e, teststores.OrderKey(id), l.work.run)
				assert.NoError(t, err, "the next call")
				assert.True(t, res.Stored && !res.Replayed, "it runs: %+v", res)
				assert.Equal(t, l.work.runs.Load(), int64(1), "runs")
				l.p.Deliver()
				l.wantNoDoubt(t, id)
			})
		}
	}
}

// TestRedisLostComplete: the store has the answer and cannot confirm it for a while. The caller
// gets its value, and so does the next.
func TestRedisLostComplete(t *testing.T) {
	t.Parallel()
	server := startKnowing(t)
	for adapter := range servers.RedisClients {
		for _, loss := range servers.Losses {
			t.Run(adapter+", "+loss.Name, func(t *testing.T) {
				t.Parallel()
				l := newLossy(t, servers.StartRedisProxy(t, server.Addr), adapter, retrysafe.Policy{})
				l.p.SetHook(func(name string, _ int) servers.Cut {
					if name == "complete" {
						return loss.Cut
					}
					return 0
				})
				res, err := retrysafe.Do(t.Context(), l.e, teststores.OrderKey(t.Name()), l.work.run)
				assert.NoError(t, err, "work that is done")
				assert.True(t, !res.Stored && res.Value == 1, "the caller has the value, unconfirmed: %+v", res)
				l.p.SetHook(nil)
				waits.Eventually(t, "the answer is kept", func() bool {
					rec, err := l.store.Lookup(t.Context(), teststores.OrderStoreKey(t.Name()))
					return err == nil && rec.State == retrysafe.StateCompleted
				})
				l.wantOnce(t, t.Name())
			})
		}
	}
}

// TestRedisHeldReply: the reply to a claim does not come, and the connection stays open. The client
// gives it up after a while, and its repeated call is recognized.
func TestRedisHeldReply(t *testing.T) {
	t.Parallel()
	server := startKnowing(t)
	for adapter := range servers.RedisClients {
		t.Run(adapter, func(t *testing.T) {
			t.Parallel()
			l := newLossy(t, servers.StartRedisProxy(t, server.Addr), adapter, retrysafe.Policy{})
			l.p.SetHook(func(name string, n int) servers.Cut {
				if name == "acquire" && n == 1 {
					return servers.HoldReply
				}
				return 0
			})
			res, err := retrysafe.Do(t.Context(), l.e, teststores.OrderKey(t.Name()), l.work.run)
			assert.NoError(t, err, "the call")
			assert.True(t, res.Stored && !res.Replayed, "it ran here: %+v", res)
			l.wantOnce(t, t.Name())
		})
	}
}

// TestRedisLostIssue: a caller that issues a key and loses the reply repeats the call, and learns
// that the key is its own.
func TestRedisLostIssue(t *testing.T) {
	t.Parallel()
	server := startKnowing(t)
	for adapter := range servers.RedisClients {
		for _, loss := range servers.Losses {
			t.Run(adapter+", "+loss.Name, func(t *testing.T) {
				t.Parallel()
				l := newLossy(t, servers.StartRedisProxy(t, server.Addr), adapter, retrysafe.Policy{})
				l.p.SetHook(func(name string, n int) servers.Cut {
					if name == "issue" && n == 1 {
						return loss.Cut
					}
					return 0
				})
				req := storeapi.IssueRequest{Key: teststores.OrderStoreKey(t.Name()), Owner: storeapi.Owner{1}, Retention: time.Minute}
				status, err := l.store.Issue(t.Context(), req)
				if err != nil { // this client does not repeat it itself
					status, err = l.store.Issue(t.Context(), req)
				}
				assert.NoError(t, err, "issue")
				assert.Equal(t, status, storeapi.StatusAcquired, "status")
				assert.True(t, l.p.Ran("issue") > 1, "it was sent again")
				req.Owner = storeapi.Owner{2}
				status, err = l.store.Issue(t.Context(), req)
				assert.NoError(t, err, "issue by another")
				assert.Equal(t, status, storeapi.StatusAlreadyIssued, "status for another")
			})
		}
	}
}
