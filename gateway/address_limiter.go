package gateway

import (
	"maps"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe"
)

// mostAddresses is how many addresses are counted separately; each takes about 100 bytes.
const mostAddresses = 100_000

// addressLimiter limits how many attempts begin for an address. Each gateway counts in memory:
// counts in the store would fill it.
type addressLimiter struct {
	every time.Duration // between two attempts, on average
	burst time.Duration // how much may come at once, as time at the rate
	now   func() time.Time

	mu    sync.Mutex
	swept time.Time
	// until is when the rate has made up for all attempts that an address has begun. A time in the
	// past counts for nothing.
	until map[string]time.Time
}

func newAddressLimiter(r retrysafe.Rate) *addressLimiter {
	if r.PerSecond <= 0 {
		return nil
	}
	every := time.Duration(float64(time.Second) / r.PerSecond)
	burst := r.Burst
	if burst <= 0 {
		burst = int64(r.PerSecond + 1)
	}
	return &addressLimiter{every: every, burst: every * time.Duration(burst), now: time.Now, until: map[string]time.Time{}}
}

// countAttempt counts one attempt, or returns how long to wait. If too many addresses are known,
// all others share one count.
func (k *addressLimiter) countAttempt(address string) (counted string, wait time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.now()
	if _, known := k.until[address]; !known && len(k.until) >= mostAddresses {
		if now.Sub(k.swept) >= time.Second { // at most once a second: it scans all addresses
			k.swept = now
			maps.DeleteFunc(k.until, func(_ string, until time.Time) bool { return until.Before(now) })
		}
		if len(k.until) >= mostAddresses {
			address = ""
		}
	}
	until := k.until[address]
	if until.Before(now) {
		until = now
	}
	if until = until.Add(k.every); until.Sub(now) > k.burst {
		return address, until.Sub(now) - k.burst
	}
	k.until[address] = until
	return address, 0
}

// uncountAttempt takes back the count of a request that began no attempt.
func (k *addressLimiter) uncountAttempt(counted string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.until[counted] = k.until[counted].Add(-k.every)
}
