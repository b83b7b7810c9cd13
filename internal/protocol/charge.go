package protocol

import (
	"math"
	"slices"
	"time"

	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// Charge counts what the request says, or refuses it; after a refusal there is nothing to write. It
// does not change memory that cur refers to.
func Charge(cur Usage, now Micros, req *storeapi.ChargeRequest) (next Usage, charged storeapi.Charged, write bool) {
	t := TermsOf(req)
	next = cur.withoutExpired(now)
	if wait := next.waitTime(now, &t); wait > 0 {
		return cur, storeapi.Charged{After: time.Duration(wait) * time.Microsecond}, false
	}
	if t.Every > 0 {
		next.addToRate(now, t.Every, t.Keys)
	}
	next.addToBucket(t.bucketEnd(now), t.Keys, func(b *Bucket) *int64 { return &b.Keys })
	next.addToBucket(t.bucketEnd(now), t.Bytes, func(b *Bucket) *int64 { return &b.Bytes })
	return next, storeapi.Charged{OK: true}, true
}

// Terms are the numbers of a request, in the units that are counted with; scripts get them too. A
// zero limit means no limit.
type Terms struct {
	Keys, Bytes int64
	// For is how long a key counts. Width is the width of a bucket: the largest power of two that
	// is at most a sixteenth of For.
	For, Width Micros
	// Live and Stored are the limits for keys and bytes.
	Live, Stored int64
	// Every is the time between two new keys at the rate, and Room is the time that its burst
	// covers.
	Every, Room Micros
}

// bucketsFor is the smallest number of buckets in a span: a key counts at most one bucket too long.
const bucketsFor = 16

// TermsOf returns the terms of a valid request.
func TermsOf(req *storeapi.ChargeRequest) Terms {
	l := &req.Limits
	t := Terms{Keys: req.Keys, Bytes: req.Bytes, For: min(ToMicros(req.For), never), Width: 1, Live: max(0, l.Live), Stored: max(0, l.Bytes)}
	for t.Width*2 <= t.For/bucketsFor {
		t.Width *= 2
	}
	if l.PerSecond > 0 {
		// Rounded up: never faster than the rate.
		t.Every = max(1, Micros(math.Ceil(1e6/l.PerSecond)))
		burst := l.Burst
		if burst <= 0 {
			burst = int64(math.Ceil(l.PerSecond))
		}
		t.Room = burst * t.Every
	}
	return t
}

// bucketEnd returns the end of the bucket for what is counted now.
func (t *Terms) bucketEnd(now Micros) Micros {
	return min((now+t.For+t.Width-1)/t.Width*t.Width, never)
}

// withoutExpired returns a copy of u without what has expired.
func (u *Usage) withoutExpired(now Micros) (left Usage) {
	for _, r := range u.Rates {
		if r.Next > now {
			left.Rates = append(left.Rates, r)
		}
	}
	for _, b := range u.Buckets {
		if b.Ends > now {
			left.Buckets = append(left.Buckets, b)
		}
	}
	return left
}

// Bounds of the time after which a caller that was refused because of live keys should retry.
const (
	minWait Micros = 1e6
	maxWait Micros = 60e6
)

// waitTime returns how long new keys have to wait; zero: not at all.
func (u *Usage) waitTime(now Micros, t *Terms) (wait Micros) {
	if t.Keys <= 0 {
		return 0
	}
	var keys, bytes int64
	firstKey, firstByte := never, never
	for _, b := range u.Buckets {
		if b.Keys > 0 {
			keys, firstKey = keys+b.Keys, min(firstKey, b.Ends)
		}
		if b.Bytes > 0 {
			bytes, firstByte = bytes+b.Bytes, min(firstByte, b.Ends)
		}
	}
	if t.Live > 0 && keys+t.Keys > t.Live {
		wait = max(wait, min(max(firstKey-now, minWait), maxWait))
	}
	if t.Stored > 0 && bytes >= t.Stored {
		wait = max(wait, min(max(firstByte-now, minWait), maxWait))
	}
	if t.Every > 0 {
		wait = max(wait, u.nextArrival(now, t.Every)+t.Keys*t.Every-now-t.Room)
		if len(u.Rates) >= mostRates && !u.hasRate(t.Every) {
			wait = max(wait, minWait)
		}
	}
	return wait
}

// mostRates is how many different rates of a tenant are counted at once. It limits what is stored.
const mostRates = 256

func (u *Usage) hasRate(every Micros) bool {
	return slices.ContainsFunc(u.Rates, func(r Rate) bool { return r.Every == every })
}

// nextArrival returns the theoretical arrival time of a rate: now, unless keys came before their
// time.
func (u *Usage) nextArrival(now, every Micros) Micros {
	for _, r := range u.Rates {
		if r.Every == every {
			return max(r.Next, now)
		}
	}
	return now
}

// addToRate counts keys of a rate, or gives them back.
func (u *Usage) addToRate(now, every Micros, keys int64) {
	next := u.nextArrival(now, every) + keys*every
	for i := range u.Rates {
		if u.Rates[i].Every != every {
			continue
		}
		if u.Rates[i].Next = next; next <= now {
			u.Rates = append(u.Rates[:i], u.Rates[i+1:]...)
		}
		return
	}
	if next > now {
		u.Rates = append(u.Rates, Rate{every, next})
	}
}

// addToBucket counts n in the bucket that ends then. A negative n is taken from that bucket and
// those before it, the last first, and never makes one negative.
func (u *Usage) addToBucket(ends Micros, n int64, of func(*Bucket) *int64) {
	at := 0
	for at < len(u.Buckets) && u.Buckets[at].Ends < ends {
		at++
	}
	here := at < len(u.Buckets) && u.Buckets[at].Ends == ends
	if n > 0 {
		if !here {
			u.Buckets = append(u.Buckets[:at], append([]Bucket{{Ends: ends}}, u.Buckets[at:]...)...)
		}
		*of(&u.Buckets[at]) += n
		return
	}
	if !here {
		at--
	}
	for ; at >= 0 && n < 0; at-- {
		b := &u.Buckets[at]
		part := min(*of(b), -n)
		*of(b) -= part
		n += part
		if b.Keys == 0 && b.Bytes == 0 {
			u.Buckets = append(u.Buckets[:at], u.Buckets[at+1:]...)
		}
	}
}
