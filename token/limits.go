package token

import (
	"log/slog"
	"sync"
	"time"
)

// limits counts what this process has issued recently.
//
// When Total are counted, a newcomer takes the place of the newest token of the account that has
// most: callers who invent accounts must not lock out all others. That token stays valid, and only
// is not counted any more. Places are taken at the pace at which a full count empties by itself, so
// that no more than about twice Total are valid at once.
type limits struct {
	rate, anonymous, outstanding, total int // zero or less: no limit
	keep                                time.Duration
	logger                              *slog.Logger

	mu       sync.Mutex
	queue    []*issue // in order of time, those that are not counted any more too
	counted  int
	accounts map[string]*account
	bySize   largest
	places   float64   // that may be taken now
	filled   time.Time // when places were filled up
	warned   time.Time // when the log last said that the count is full
}

// issue is a token that was issued.
type issue struct {
	account *account // nil: it is not counted any more
	at      time.Time
}

func newLimits(o *Options) *limits {
	l := &limits{
		rate: o.Rate, anonymous: o.Anonymous, outstanding: o.Outstanding, total: o.Total, logger: o.Logger,
		keep: max(o.Life, time.Minute), accounts: make(map[string]*account),
	}
	l.places = l.mostPlaces()
	return l
}

// take counts one more token of an account. If that exceeds a limit, it returns how long to wait.
func (l *limits) take(name string, anonymous bool, now time.Time) (wait time.Duration, ok bool) {
	l.mu.Lock()
	wait, ok, full := l.count(name, anonymous, now)
	accounts, most := len(l.accounts), l.bySize.most()
	l.mu.Unlock()
	if full {
		l.logger.Warn("as many tokens are out as Total allows, so new callers get them slowly; if callers are not verified, "+
			"set Account to what they cannot invent, such as an address", "total", l.total, "accounts", accounts, "most_of_one", most)
	}
	return wait, ok
}

// count is take under the lock. full says that the log has to say so.
func (l *limits) count(name string, anonymous bool, now time.Time) (wait time.Duration, ok, full bool) {
	l.expire(now)
	mine, rate := l.accounts[name], l.rate
	if anonymous {
		rate = l.anonymous
	}
	if n := mine.size(); l.outstanding > 0 && n >= l.outstanding {
		return mine.issues[n-l.outstanding].at.Add(l.keep).Sub(now), false, false
	}
	if n := mine.size(); rate > 0 && n >= rate {
		if free := mine.issues[n-rate].at.Add(time.Minute); free.After(now) {
			return free.Sub(now), false, false
		}
	}
	if l.counted >= l.total {
		if full = now.Sub(l.warned) >= time.Minute; full {
			l.warned = now
		}
		if wait := l.makePlace(mine, now); wait > 0 {
			return wait, false, full
		}
	}
	if mine == nil {
		mine = l.bySize.add(name)
		l.accounts[name] = mine
	}
	one := &issue{mine, now}
	mine.issues = append(mine.issues, one)
	l.queue = append(l.queue, one)
	l.counted++
	l.bySize.changed(mine)
	return 0, true, full
}

// expire drops the tokens whose time has passed.
func (l *limits) expire(now time.Time) {
	for len(l.queue) > 0 && (l.queue[0].account == nil || !l.queue[0].at.Add(l.keep).After(now)) {
		if a := l.queue[0].account; a != nil {
			l.uncount(a, 0) // it is the oldest of its account, too
		}
		l.queue = l.queue[1:]
	}
}

// makePlace makes a place in a full count for one more token of mine. It returns how long to wait
// if there is none: no account has more than mine, or places are taken too fast.
func (l *limits) makePlace(mine *account, now time.Time) (wait time.Duration) {
	first := l.bySize[0]
	if mine.size() >= first.size() {
		return l.queue[0].at.Add(l.keep).Sub(now)
	}
	each := l.keep / time.Duration(l.total)
	if since := now.Sub(l.filled); since > 0 {
		l.places, l.filled = min(l.mostPlaces(), l.places+float64(since)/float64(max(each, 1))), now
	}
	if l.places < 1 {
		return max(each, time.Millisecond)
	}
	l.places--
	l.uncount(first, first.size()-1)
	return 0
}

// mostPlaces is how many places may be taken at once.
func (l *limits) mostPlaces() float64 { return max(1, float64(l.total)/10) }

// uncount stops to count the token at an index of an account, its oldest or its newest one.
func (l *limits) uncount(a *account, at int) {
	a.issues[at].account = nil
	if at == 0 {
		a.issues = a.issues[1:]
	} else {
		a.issues = a.issues[:at]
	}
	l.counted--
	if a.size() == 0 {
		delete(l.accounts, a.name)
		l.bySize.remove(a)
		return
	}
	l.bySize.changed(a)
}
