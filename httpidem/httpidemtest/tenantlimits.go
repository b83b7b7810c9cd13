package httpidemtest

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// checkTooMany checks that a new key is refused, with a Retry-After of whole seconds between least
// and most.
func (wd *world) checkTooMany(r reply, least, most int) {
	wd.t.Helper()
	assert.Equal(wd.t, r.status, http.StatusTooManyRequests, "status (body %s)", r.body)
	assert.Equal(wd.t, r.problemCode(), "too-many-keys", "code")
	assert.Contains(wd.t, r.header.Get("Link"), `problems/too-many-keys.md>; rel="describedby"`, "Link")
	after, err := strconv.Atoi(r.header.Get("Retry-After"))
	assert.True(wd.t, err == nil && after >= least && after <= most, "Retry-After is %d to %d whole seconds: %q", least, most, r.header.Get("Retry-After"))
}

// testTenantLimits tests H18: a tenant's new keys over its limits are refused before anything runs,
// and nothing else is refused.
func testTenantLimits(t *testing.T, open Open) {
	of := func(user, key string) call {
		return call{body: "x", header: []string{"Idempotency-Key", key, "Authorization", basicHeader(user, "1")}}
	}
	world := func(t *testing.T, l retrysafe.Limits, handler origin) *world {
		t.Helper()
		return newWorld(t, open, Setup{Policy: retrysafe.Policy{Limits: l}}, handler)
	}
	t.Run("live", func(t *testing.T) {
		t.Parallel()
		wd := world(t, retrysafe.Limits{Live: 2}, nil)
		first := wd.send(of("ann", "a"))
		assert.Equal(t, wd.send(of("ann", "b")).status, 201, "the second of two")
		for range 3 {
			wd.checkTooMany(wd.send(of("ann", "c")), 1, 60)
		}
		wd.checkStarts(2, "of three keys")
		wd.checkReplay(first, wd.send(of("ann", "a")))
		other := of("ann", "a")
		other.body = "y"
		wd.checkProblem(wd.send(other), 422, "payload-mismatch", false)
		assert.Equal(t, wd.send(of("bob", "c")).status, 201, "another tenant")
		wd.send(call{header: []string{"Authorization", basicHeader("ann", "1")}})
		wd.checkStarts(4, "in all: a request without a key is not guarded, and not counted")
	})
	t.Run("callers without a credential are one tenant", func(t *testing.T) {
		t.Parallel()
		wd := world(t, retrysafe.Limits{Live: 1}, nil)
		assert.Equal(t, wd.send(call{header: []string{"Idempotency-Key", longKey}}).status, 201, "the first")
		wd.checkTooMany(wd.send(call{header: []string{"Idempotency-Key", longKey + "x"}}), 1, 60)
		wd.checkStarts(1, "in all")
	})
	t.Run("while the first runs", func(t *testing.T) {
		t.Parallel()
		entered, leave := make(chan struct{}), make(chan struct{})
		wd := world(t, retrysafe.Limits{Live: 1}, func(w http.ResponseWriter, _ *http.Request) {
			close(entered)
			<-leave
			w.WriteHeader(http.StatusCreated)
		})
		done := make(chan reply, 1)
		go func() {
			r, _ := wd.trySend(of("ann", "a"))
			done <- r
		}()
		<-entered
		wd.checkProblem(wd.send(of("ann", "a")), 409, "in-progress", true)
		wd.checkTooMany(wd.send(of("ann", "b")), 1, 60)
		close(leave)
		assert.Equal(t, (<-done).status, 201, "the first")
		wd.checkStarts(1, "in all")
	})
	t.Run("what did nothing runs again", func(t *testing.T) {
		t.Parallel()
		wd := world(t, retrysafe.Limits{Live: 1}, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooEarly) })
		for range 3 {
			assert.Equal(t, wd.send(of("ann", "a")).status, 425, "the service's answer")
		}
		wd.checkStarts(3, "in all")
		wd.checkTooMany(wd.send(of("ann", "b")), 1, 60)
	})
	t.Run("rate", func(t *testing.T) {
		t.Parallel()
		wd := world(t, retrysafe.Limits{PerSecond: 0.01, Burst: 2}, nil)
		assert.Equal(t, wd.send(of("ann", "a")).status, 201, "the first of a burst")
		assert.Equal(t, wd.send(of("ann", "b")).status, 201, "the second of it")
		wd.checkTooMany(wd.send(of("ann", "c")), 60, 60)
		wd.checkStarts(2, "in all")
	})
	t.Run("bytes", func(t *testing.T) {
		t.Parallel()
		wd := world(t, retrysafe.Limits{Bytes: 1}, nil)
		first := wd.send(of("ann", "0"))
		n := 0
		wd.waitUntil(func() bool { // the bytes of an answer are counted soon after it
			n++
			return wd.send(of("ann", strconv.Itoa(n))).status == http.StatusTooManyRequests
		}, "an answer that fills the room")
		wd.checkTooMany(wd.send(of("ann", "one-more")), 1, 60)
		wd.checkReplay(first, wd.send(of("ann", "0")))
	})
	t.Run("store away", func(t *testing.T) {
		t.Parallel()
		s := &breakableStore{Store: memstore.New(nil)}
		wd := newWorld(t, open, Setup{Store: s, Policy: retrysafe.Policy{Limits: retrysafe.Limits{Live: 1}, Retention: time.Hour}}, nil)
		s.down.Store(true)
		wd.checkProblem(wd.send(of("ann", "a")), 503, "store-unavailable", true)
		wd.checkStarts(0, "while the store is away")
		s.down.Store(false)
		assert.Equal(t, wd.send(of("ann", "a")).status, 201, "when it is back")
	})
}
