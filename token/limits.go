package token

import (
	"sync"
	"time"
)

// limits counts what this process has issued lately.
type limits struct {
	rate, anonymous, outstanding, total int // zero or less: no limit
	keep                                time.Duration

	mu      sync.Mutex
	queue   []issue                // in order of time
	tenants map[string][]time.Time // the same by tenant
}

type issue struct {
	tenant string
	at     time.Time
}

func newLimits(o *Options) limits {
	return limits{
		rate: o.Rate, anonymous: o.Anonymous, outstanding: o.Outstanding, total: o.Total,
		keep: max(o.Life, time.Minute), tenants: make(map[string][]time.Time),
	}
}

// take counts one more token, or says how long to wait for it.
func (l *limits) take(tenant string, now time.Time) (wait time.Duration, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.queue) > 0 && !l.queue[0].at.Add(l.keep).After(now) {
		l.forget(l.queue[0].tenant)
	}
	mine, rate := l.tenants[tenant], l.rate
	if tenant == "" {
		rate = l.anonymous
	}
	if n := len(l.queue); n >= l.total {
		return l.queue[n-l.total].at.Add(l.keep).Sub(now), false
	}
	if n := len(mine); l.outstanding > 0 && n >= l.outstanding {
		return mine[n-l.outstanding].Add(l.keep).Sub(now), false
	}
	if n := len(mine); rate > 0 && n >= rate {
		if free := mine[n-rate].Add(time.Minute); free.After(now) {
			return free.Sub(now), false
		}
	}
	l.queue = append(l.queue, issue{tenant, now})
	l.tenants[tenant] = append(mine, now)
	return 0, true
}

// forget drops the oldest of all, which is the oldest of its tenant too.
func (l *limits) forget(tenant string) {
	l.queue = l.queue[1:]
	if rest := l.tenants[tenant][1:]; len(rest) > 0 {
		l.tenants[tenant] = rest
		return
	}
	delete(l.tenants, tenant)
}
