package integration_test

import (
	"context"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
)

// TestRedisFull: while the server's memory is full nothing new runs, and callers are told so; what runs already comes to its end, and
// when there is room again all goes on.
func TestRedisFull(t *testing.T) {
	t.Parallel()
	for adapter, connect := range redisClients {
		t.Run(adapter, func(t *testing.T) {
			t.Parallel()
			server := startRedis(t, "--maxmemory-policy", "noeviction")
			s := redisOn(t, connect(t, "redis://"+server.addr), nil)
			e := redisEngine(t, s, retrysafe.Policy{})
			front := newShopFront(t, e)
			full, began := make(chan struct{}), make(chan struct{}, 4)
			ends := map[string]func() (int64, error){
				"done":    func() (int64, error) { return 7, nil },
				"nothing": func() (int64, error) { return 0, retrysafe.NothingDone(errFaultWork) },
				"refused": func() (int64, error) { return 0, retrysafe.Permanent("refused", errFaultWork) },
				"doubt":   func() (int64, error) { return 0, errFaultWork },
			}
			through := make(chan error, len(ends))
			for id, end := range ends {
				go func() {
					_, err := retrysafe.Do(t.Context(), e, faultKey(id), func(context.Context) (int64, error) {
						began <- struct{}{}
						<-full
						return end()
					})
					through <- err
				}()
			}
			for range ends {
				<-began
			}
			redisDo(server.addr, "DEBUG", "POPULATE", 3000, "other", 2000)
			assert.Equal(t, redisDo(server.addr, "CONFIG", "SET", "maxmemory", "4mb"), "OK", "less than the other keys take")

			var w work
			_, err := retrysafe.Do(t.Context(), e, faultKey("new"), w.run)
			assert.ErrorIs(t, err, retrysafe.ErrUnavailable, "a new call")
			assert.Contains(t, err.Error(), "its memory is full", "what it says")
			got := front.post(t, "new")
			assert.Equal(t, got.status, 503, "status of a new request (%s)", got.body)
			assert.Equal(t, got.code, "store-unavailable", "code")
			assert.True(t, got.retryAfter, "it has Retry-After")
			assert.Equal(t, w.runs.Load()+front.runs.Load(), int64(0), "runs while memory is full")

			close(full)
			for range ends {
				err := <-through
				assert.True(t, err == nil || strings.Contains(err.Error(), errFaultWork.Error()), "what ran already: %v", err)
			}
			for id, want := range map[string]retrysafe.State{
				"done": retrysafe.StateCompleted, "nothing": retrysafe.StateReleased, "refused": retrysafe.StateFailed, "doubt": retrysafe.StateInProgress,
			} {
				rec, err := s.Lookup(t.Context(), faultStoreKey(id))
				assert.NoError(t, err, "look")
				assert.Equal(t, rec.State, want, "state of %s", id)
				assert.Equal(t, rec.InDoubt(), id == "doubt", "%s is in doubt", id)
			}
			rec, err := s.Lookup(t.Context(), faultStoreKey("done"))
			assert.NoError(t, err, "look")
			assert.True(t, rec.Answer.Kept, "the answer is kept")

			redisDo(server.addr, "CONFIG", "SET", "maxmemory", "0")
			res, err := retrysafe.Do(t.Context(), e, faultKey("new"), w.run)
			assert.NoError(t, err, "when there is room again")
			assert.True(t, res.Stored && !res.Replayed, "it runs: %+v", res)
			assert.Equal(t, front.post(t, "new").status, 201, "status of a request when there is room again")
			assert.Equal(t, len(doubts(t, s)), 1, "records in doubt")
		})
	}
}
