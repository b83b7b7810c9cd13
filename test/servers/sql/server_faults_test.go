package sql_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/sqlstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
	"github.com/retrysafe/retrysafe/test/servers/internal/teststores"
	"github.com/retrysafe/retrysafe/test/servers/internal/waits"
)

// TestServerCommitComesLate: a COMMIT that was sent in time but reaches the server too late is not
// carried out.
func TestServerCommitComesLate(t *testing.T) {
	t.Parallel()
	eachSQLServer(t, func(t *testing.T, server *sqlServer) {
		t.Helper()
		proxy := server.startProxy(t)
		s, _ := server.store(t, server.at(proxy.Addr), nil)
		direct, _ := server.store(t, server.url, nil)
		now := func() time.Time {
			rec, err := direct.Lookup(t.Context(), teststores.Request("nobody").Key)
			assert.NoError(t, err, "Lookup")
			return rec.Now
		}
		for name, hangUp := range map[string]bool{"the caller waits": false, "the caller has gone": true} {
			req := teststores.Request(name)
			req.NotAfter = now().Add(300 * time.Millisecond)
			release := proxy.Set(server.commits, servers.LateRequest)
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { _, err := s.Acquire(ctx, req); done <- err }()
			for passed := false; !passed; { // by the server's clock
				passed = now().After(req.NotAfter)
			}
			var err error
			if hangUp {
				cancel()
				err = <-done
			}
			release()
			if !hangUp {
				err = <-done
				assert.ErrorIs(t, err, retrysafe.ErrTooLate, "%s", name)
			}
			cancel()
			assert.True(t, err != nil, "%s: it fails", name)
			server.idle(t)
			rec, err := direct.Lookup(t.Context(), req.Key)
			assert.NoError(t, err, "Lookup")
			assert.Equal(t, rec.State, retrysafe.State(0), "%s: what is stored", name)
			_, err = direct.Acquire(t.Context(), teststores.Request(name))
			assert.NoError(t, err, "the next call")
		}
	})
}

// TestServerConnectionCut: whichever message or reply is lost, the same call again by the same
// owner finds the outcome of the first one, and nothing is done twice. The store itself recovers
// from a loss before the commit.
func TestServerConnectionCut(t *testing.T) {
	t.Parallel()
	eachSQLServer(t, func(t *testing.T, server *sqlServer) {
		t.Helper()
		proxy := server.startProxy(t)
		s, _ := server.store(t, server.at(proxy.Addr), nil)
		answer := retrysafe.Answer{Kept: true, Codec: "raw", Size: 5, Body: []byte("first")}
		n := 0
		for _, word := range append(server.early, server.commits) {
			before := word != server.commits
			for what, name := range map[servers.Cut]string{servers.LoseRequest: "the request", servers.LoseReply: "the reply"} {
				name := fmt.Sprintf("%s of %q is lost", name, word)
				n++
				req := teststores.Request(fmt.Sprint("key ", n))
				proxy.Set(word, what)
				first, err := s.Acquire(t.Context(), req)
				if before {
					assert.NoError(t, err, "Acquire, %s", name)
				} else {
					assert.Contains(t, fmt.Sprint(err), "it is unknown whether it was carried out", "Acquire, %s", name)
				}
				a, err := s.Acquire(t.Context(), req)
				assert.NoError(t, err, "Acquire again, %s", name)
				assert.Equal(t, a.Status, storeapi.StatusAcquired, "Acquire again, %s", name)
				assert.Equal(t, a.Record.Attempt, 1, "attempts, %s", name)
				if before {
					assert.Equal(t, a.Record.Fence, first.Record.Fence, "fence, %s", name)
				}

				end := storeapi.CompleteRequest{Key: req.Key, Owner: req.Owner, Fence: a.Record.Fence, State: retrysafe.StateCompleted, Answer: answer}
				proxy.Set(word, what)
				_, err = s.Complete(t.Context(), end)
				assert.Equal(t, err == nil, before, "Complete, %s: %v", name, err)
				if what == servers.LoseReply || before {
					end.Answer.Body = []byte("other") // the call again must not replace it
				}
				rec, err := s.Complete(t.Context(), end)
				assert.NoError(t, err, "Complete again, %s", name)
				assert.Equal(t, string(rec.Answer.Body), "first", "the answer, %s", name)
			}
		}
	})
}

// TestServerChargeIsNotRepeated: a charge whose commit was not answered returns an error and is not
// sent again. One that was lost before the commit counts once.
func TestServerChargeIsNotRepeated(t *testing.T) {
	t.Parallel()
	eachSQLServer(t, func(t *testing.T, server *sqlServer) {
		t.Helper()
		proxy := server.startProxy(t)
		s, _ := server.store(t, server.at(proxy.Addr), nil)
		chargeIsNotRepeated(t, s, proxy, server.early[0], server.commits)
	})
}

// TestServerCrashUnderLoad: the server crashes again and again under callers that retry. Of many
// callers for one key exactly one acquires it, and answered calls are there afterwards.
func TestServerCrashUnderLoad(t *testing.T) {
	t.Parallel()
	for name, start := range sqlServers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := start(t, true)
			var stores []*sqlstore.Store
			for range 2 {
				s, _ := server.store(t, server.url, nil)
				stores = append(stores, s)
			}
			crashUnderLoad(t, stores, func() { server.kill(); server.start(t) })
		})
	}
}

// claimAndComplete claims a key and completes it, and repeats each call until it is answered.
func claimAndComplete(ctx context.Context, s *sqlstore.Store, id, by string) (won bool, err error) {
	req := teststores.Request(id)
	req.Owner = teststores.Owner(by)
	var a storeapi.Acquired
	waits.Until(ctx, func() bool { a, err = s.Acquire(ctx, req); return err == nil })
	if err != nil || a.Status != storeapi.StatusAcquired {
		return false, err
	}
	waits.Until(ctx, func() bool {
		_, err = s.Complete(ctx, storeapi.CompleteRequest{
			Key: req.Key, Owner: req.Owner, Fence: a.Record.Fence, State: retrysafe.StateCompleted, Answer: retrysafe.Answer{Kept: true, Codec: "raw"},
		})
		return err == nil
	})
	return true, err
}
