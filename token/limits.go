package token

import (
	"sync"
	"time"
)

// limits counts what this process has issued recently.
type limits struct {
	rate, anonymous, outstanding, total int // zero or less: no limit
	keep                                time.Duration

	mu       sync.Mutex
	queue    []issue                // in order of time
	accounts map[string][]time.Time // the same, by account
}

type issue struct {
	account string
	at      time.Time
}

func newLimits(o *Options) limits {
	return limits{
		rate: o.Rate, anonymous: o.Anonymous, outstanding: o.Outstanding, total: o.Total,
		keep: max(o.Life, time.Minute), accounts: make(map[string][]time.Time),
	}
}

// take counts one more token of an account. If that exceeds a limit, it returns how long to wait.
func (l *limits) take(account string, anonymous bool, now time.Time) (wait time.Duration, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.queue) > 0 && !l.queue[0].at.Add(l.keep).After(now) {
		l.forget(l.queue[0].account)
	}
	mine, rate := l.accounts[account], l.rate
	if anonymous {
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
	l.queue = append(l.queue, issue{account, now})
	l.accounts[account] = append(mine, now)
	return 0, true
}

// forget drops the oldest entry, which is also the oldest of its account.
func (l *limits) forget(account string) {
	l.queue = l.queue[1:]
	if rest := l.accounts[account][1:]; len(rest) > 0 {
		l.accounts[account] = rest
		return
	}
	delete(l.accounts, account)
}
