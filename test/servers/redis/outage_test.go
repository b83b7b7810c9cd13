package redis_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
	"github.com/retrysafe/retrysafe/test/servers/internal/teststores"
	"github.com/retrysafe/retrysafe/test/servers/internal/waits"
)

// outage is what clients of a shopFront got while the server hung.
type outage struct {
	mu      sync.Mutex
	codes   map[string]int
	longest time.Duration
	bad     []string
}

func (o *outage) count(code string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.codes[code]
}

func (o *outage) noteAnswer(key string, got toldAnswer) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.codes[fmt.Sprint(got.status, " ", got.code)]++
	o.longest = max(o.longest, got.took)
	ok := got.status == http.StatusCreated || got.status == http.StatusServiceUnavailable && got.code == "store-unavailable" && got.retryAfter ||
		got.status == http.StatusConflict && got.code == "in-progress" && got.retryAfter
	if got.err != nil || !ok {
		o.bad = append(o.bad, fmt.Sprintf("%s: %+v", key, got))
	}
}

// TestRedisHangs stops the server for three seconds under the load of a service. TestSoakRedisHangs
// stops it for ten, in the long run.
func TestRedisHangs(t *testing.T) {
	t.Parallel()
	for adapter := range servers.RedisClients {
		t.Run(adapter, func(t *testing.T) { t.Parallel(); hangServer(t, adapter, 3*time.Second) })
	}
}

func TestSoakRedisHangs(t *testing.T) {
	t.Parallel()
	length := 500 * time.Millisecond
	if waits.LongSoak() {
		length = 10 * time.Second
	}
	for adapter := range servers.RedisClients {
		t.Run(adapter, func(t *testing.T) { t.Parallel(); hangServer(t, adapter, length) })
	}
}

// hangServer: clients get an answer, or 503 with Retry-After, or an error that their request is in
// progress, and nothing else. When the server is back everything works, what never ran is not in
// doubt, and each request that is sent until it is answered has run once.
func hangServer(t *testing.T, adapter string, length time.Duration) {
	t.Helper()
	server := servers.StartRedis(t)
	s := teststores.Redis(t, servers.RedisClients[adapter](t, "redis://"+server.Addr), nil)
	front := newShopFront(t, teststores.ShortEngine(t, s, retrysafe.Policy{}))
	front.takes = 20 * time.Millisecond
	o := &outage{codes: map[string]int{}}
	stop := make(chan struct{})
	end := sync.OnceFunc(func() { close(stop) })
	t.Cleanup(end) // also after a failure
	var keys sync.Map
	var all sync.WaitGroup
	for g := range 16 {
		all.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				key := fmt.Sprint(g, "-", i)
				got := front.sendRequest(t, key, []string{"", "700ms"}[g%2])
				keys.Store(key, true)
				o.noteAnswer(key, got)
			}
		})
	}
	time.Sleep(300 * time.Millisecond)
	resume := sync.OnceFunc(server.Stall())
	t.Cleanup(resume)
	time.Sleep(length)
	if length > 2*time.Second {
		waits.Eventually(t, "requests with a limit are told that the store is away", func() bool { return o.count("503 store-unavailable") > 0 })
	}
	resume()
	back := time.Now()
	waits.Eventually(t, "it goes on", func() bool {
		return front.postOrder(t, fmt.Sprint("after-", time.Now().UnixNano())).status == http.StatusCreated
	})
	recovered := time.Since(back)
	time.Sleep(300 * time.Millisecond)
	end()
	all.Wait()
	n := 0
	answered := func(key any) bool { return front.sendRequest(t, key.(string), "").status == http.StatusCreated } //nolint:errcheck,forcetypeassert // they are
	keys.Range(func(key, _ any) bool {
		n++
		waits.Eventually(t, fmt.Sprint("an answer for ", key), func() bool { return answered(key) })
		return true
	})
	t.Logf("hung for %v: %d requests, told %v, the longest took %v, back after %v", length, n, o.codes, o.longest, recovered)
	for _, what := range o.bad {
		t.Errorf("told otherwise: %s", what)
	}
	began := 0
	front.began.Range(func(any, any) bool { began++; return true })
	assert.Equal(t, front.runs.Load(), int64(began), "runs, one for each key")
	for _, rec := range listInDoubt(t, s) {
		t.Errorf("in doubt, and nothing crashed: %v", rec)
	}
}
