package httpidemtest

import (
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// testRate tests how often a caller may send requests.
func testRate(t *testing.T, open Open) {
	slow := retrysafe.Rate{PerSecond: 0.1, Burst: 3}
	for name, key := range map[string]httpidem.KeyMode{"with keys": httpidem.Optional, "unguarded": httpidem.Off} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := new(settableClock)
			wd := newWorld(t, open, Setup{Store: memstore.New(&memstore.Options{Now: clock.now}), Guard: httpidem.Options{Key: key, Limit: httpidem.LimitOptions{Rate: slow}}}, nil)
			for range 3 {
				assert.Equal(t, wd.send(keylessCall(ann, jsonBody, "{}", "Idempotency-Key", "k")).status, 201, "within the burst, repeats too")
			}
			started := wd.starts.Load()
			for _, path := range []string{"/orders", "/%6frders", "/orders?a=b"} {
				r := wd.send(call{path: path, body: "{}", header: []string{"Authorization", ann, "Idempotency-Key", "l"}})
				assert.Equal(t, r.problemCode(), "too-many-requests", "code")
				assert.Equal(t, r.status, http.StatusTooManyRequests, "status")
				after, err := strconv.Atoi(r.header.Get("Retry-After"))
				assert.NoError(t, err, "Retry-After")
				assert.True(t, after >= 1 && after <= 10, "Retry-After is %d", after)
			}
			wd.checkStarts(started, "for requests that come too early")
			assert.Equal(t, wd.send(keylessCall(bob, jsonBody, "{}")).status, 201, "another caller")
			assert.Equal(t, wd.send(call{method: "GET", header: []string{"Authorization", ann}}).status, 201, "a GET is not counted")
			clock.advance(11 * time.Second)
			assert.Equal(t, wd.send(keylessCall(ann, jsonBody, "{}", "Idempotency-Key", "l")).status, 201, "in time")
			assert.Equal(t, wd.send(keylessCall(ann, jsonBody, "{}", "Idempotency-Key", "m")).problemCode(), "too-many-requests", "and no more")
		})
	}
	t.Run("a flood", func(t *testing.T) {
		t.Parallel()
		wd := newWorld(t, open, Setup{Guard: httpidem.Options{Limit: httpidem.LimitOptions{Rate: retrysafe.Rate{PerSecond: 0.001, Burst: 7}}}}, nil)
		var passed, refused atomic.Int64
		var all sync.WaitGroup
		for i := range 60 {
			all.Go(func() {
				switch r := wd.send(keylessCall(ann, jsonBody, "{}", "Idempotency-Key", strconv.Itoa(i))); r.status {
				case http.StatusCreated:
					passed.Add(1)
				case http.StatusTooManyRequests:
					refused.Add(1)
				}
			})
		}
		all.Wait()
		assert.Equal(t, [2]int64{passed.Load(), refused.Load()}, [2]int64{7, 53}, "passed and refused")
		wd.checkStarts(7, "for what passed")
	})
	t.Run("the store is away", func(t *testing.T) {
		t.Parallel()
		store := &breakableStore{Store: memstore.New(nil)}
		store.down.Store(true)
		wd := newWorld(t, open, Setup{Store: store, Guard: httpidem.Options{Key: httpidem.Off, Limit: httpidem.LimitOptions{Rate: slow}}}, nil)
		wd.checkProblem(wd.send(keylessCall(ann, jsonBody, "{}")), 503, "store-unavailable", true)
		wd.checkStarts(0, "that nobody could count")
	})
}
