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
	keepTime                            time.Duration
	logger                              *slog.Logger

	mu       sync.Mutex
	queue    []*issuedToken // in order of time, those that are not counted any more too
	counted  int
	accounts map[string]*account
	bySize   accountHeap
	places   float64   // that may be taken now
	filledAt time.Time // when places were filled up
	warnedAt time.Time // when the log last said that the count is full
}

// issuedToken is a token that was issued.
type issuedToken struct {
	account *account // nil: it is not counted any more
	at      time.Time
}

func newLimits(o *Options) *limits {
	l := &limits{
		rate: o.Rate, anonymous: o.Anonymous, outstanding: o.Outstanding, total: o.Total, logger: o.Logger,
		keepTime: max(o.Life, time.Minute), accounts: make(map[string]*account),
	}
	l.places = l.mostPlaces()
	return l
}

// admit counts one more token of an account. If that exceeds a limit, it returns how long to wait.
func (l *limits) admit(name string, anonymous bool, now time.Time) (wait time.Duration, ok bool) {
	l.mu.Lock()
	wait, ok, full := l.admitLocked(name, anonymous, now)
	accounts, most := len(l.accounts), l.bySize.mostTokens()
	l.mu.Unlock()
	if full {
		l.logger.Warn("as many tokens are out as Total allows, so new callers get them slowly; if callers are not verified, "+
			"set Account to what they cannot invent, such as an address", "total", l.total, "accounts", accounts, "most_of_one", most)
	}
	return wait, ok
}

// admitLocked is admit under the lock. full says that the log has to say so.
func (l *limits) admitLocked(name string, anonymous bool, now time.Time) (wait time.Duration, ok, full bool) {
	l.expireTokens(now)
	mine, rate := l.accounts[name], l.rate
	if anonymous {
		rate = l.anonymous
	}
	if n := mine.tokenCount(); l.outstanding > 0 && n >= l.outstanding {
		return mine.tokens[n-l.outstanding].at.Add(l.keepTime).Sub(now), false, false
	}
	if n := mine.tokenCount(); rate > 0 && n >= rate {
		if free := mine.tokens[n-rate].at.Add(time.Minute); free.After(now) {
			return free.Sub(now), false, false
		}
	}
	if l.counted >= l.total {
		if full = now.Sub(l.warnedAt) >= time.Minute; full {
			l.warnedAt = now
		}
		if wait := l.makePlace(mine, now); wait > 0 {
			return wait, false, full
		}
	}
	if mine == nil {
		mine = l.bySize.addAccount(name)
		l.accounts[name] = mine
	}
	one := &issuedToken{mine, now}
	mine.tokens = append(mine.tokens, one)
	l.queue = append(l.queue, one)
	l.counted++
	l.bySize.fix(mine)
	return 0, true, full
}

// expireTokens drops the tokens whose time has passed.
func (l *limits) expireTokens(now time.Time) {
	for len(l.queue) > 0 && (l.queue[0].account == nil || !l.queue[0].at.Add(l.keepTime).After(now)) {
		if a := l.queue[0].account; a != nil {
			l.uncountToken(a, 0) // it is the oldest of its account, too
		}
		l.queue = l.queue[1:]
	}
}

// makePlace makes a place in a full count for one more token of mine. It returns how long to wait
// if there is none: no account has more than mine, or places are taken too fast.
func (l *limits) makePlace(mine *account, now time.Time) (wait time.Duration) {
	first := l.bySize[0]
	if mine.tokenCount() >= first.tokenCount() {
		return l.queue[0].at.Add(l.keepTime).Sub(now)
	}
	each := l.keepTime / time.Duration(l.total)
	if since := now.Sub(l.filledAt); since > 0 {
		l.places, l.filledAt = min(l.mostPlaces(), l.places+float64(since)/float64(max(each, 1))), now
	}
	if l.places < 1 {
		return max(each, time.Millisecond)
	}
	l.places--
	l.uncountToken(first, first.tokenCount()-1)
	return 0
}

// mostPlaces is how many places may be taken at once.
func (l *limits) mostPlaces() float64 { return max(1, float64(l.total)/10) }

// uncountToken stops to count the token at an index of an account, its oldest or its newest one.
func (l *limits) uncountToken(a *account, at int) {
	a.tokens[at].account = nil
	if at == 0 {
		a.tokens = a.tokens[1:]
	} else {
		a.tokens = a.tokens[:at]
	}
	l.counted--
	if a.tokenCount() == 0 {
		delete(l.accounts, a.name)
		l.bySize.remove(a)
		return
	}
	l.bySize.fix(a)
}
