package check

import (
	"context"
	"fmt"
	"net/http"
	"slices"
)

// few and many are how often a request is repeated before its effects are counted, and how often
// in all.
const few, many = 3, 10

var sequentialDuplicate = &Check{
	ID: "sequential-duplicate", Title: "a duplicate does not act again", Severity: Critical, Requests: 1 + many + settles,
	Sends: []string{"One request.", "The same request, with the same key, three more times.", "If none of them acted, the same request seven more times."},
	Why:   "The first answer was lost on its way, and the client sends its request again.",
	Wrong: []string{
		"The operation took effect more than once, or never.",
		"The stored answer is gone after some duplicates, and a later one acts.",
		"A duplicate is answered with a status of 500 or above.",
	},
	Fix: "Store the key before the work begins, and the answer with it when the work ends. Answer each duplicate from there, however many there are.",
	run: func(ctx context.Context, s *session) finding {
		effects := s.effects(ctx)
		op := s.first()
		first := s.send(ctx, "the first request", op)
		if !first.ok() {
			return unfit(&first)
		}
		d := duplicates{first: first}
		if f, ok := d.sequence(ctx, s, op, few); !ok {
			return f
		}
		if f, ok := countedOnce(effects.since(ctx, 1)); !ok {
			return f
		}
		if s.learned.refuses == 0 {
			if f, ok := d.sequence(ctx, s, op, many); !ok {
				return f
			}
			if n := effects.since(ctx, 1); n > 1 {
				return broken(Critical, "%d duplicates did not act, and a later one did: of %d requests with one key, %d took effect", few, 1+d.sent, n)
			}
		}
		return d.judge(s, effects.known())
	},
}

// duplicates are the duplicates of one request, one after another.
type duplicates struct {
	first, last reply
	sent        int
	differs     bool // a duplicate was answered with success and other bytes
}

// sequence sends duplicates of op until there are most of them. ok is false if one is answered with
// an error of the API.
func (d *duplicates) sequence(ctx context.Context, s *session, op operation, most int) (f finding, ok bool) {
	for d.sent < most && s.learned.refuses == 0 {
		d.sent++
		d.last = s.quiet(ctx, op)
		differs := d.last.ok() && !d.last.same(&d.first)
		if d.sent <= few || d.last.failed() || differs && !d.differs {
			s.show(fmt.Sprintf("duplicate %d", d.sent), op, &d.last)
		}
		d.differs = d.differs || differs
		if d.last.running() && d.sent == 1 {
			d.last = s.settleAfter(ctx, "the duplicate again, some time later", op, d.first)
		}
		if d.last.failed() {
			return broken(Serious, "the first answer was %s, and a duplicate was answered %s", &d.first, &d.last), false
		}
	}
	return finding{}, true
}

// judge judges duplicates that did not act where effects are known.
func (d *duplicates) judge(s *session, known bool) finding {
	switch {
	case d.last.refused():
		return noted("a duplicate does not act, and is answered %s: a client that lost the first answer cannot get it back", &d.last)
	case !d.last.ok():
		return undecided("", "the duplicate got %s", &d.last)
	case !known && (d.differs || !s.distinct):
		return undecided(needOracle, "the answers do not show whether a duplicate acted")
	case !known:
		return passed("%d duplicates got the first answer (effects were not counted)", d.sent)
	}
	return passed("%d requests, one effect", 1+d.sent)
}

var newKey = &Check{
	ID: "new-key", Title: "a new key acts again", Severity: Serious, Requests: 2,
	Sends: []string{"One request.", "The same request with another key."},
	Why:   "A customer orders the same thing twice, on purpose.",
	Wrong: []string{"The second request gets an answer of success, and does not take effect."},
	Fix:   "Find duplicates by the key, never by what the request says.",
	run: func(ctx context.Context, s *session) finding {
		effects := s.effects(ctx)
		op := s.first()
		first := s.send(ctx, "the first request", op)
		second := s.send(ctx, "the same request with another key", op.keyed(s.newKey()))
		if !first.ok() {
			return unfit(&first)
		}
		if !second.ok() {
			return noted("the same request with another key is answered %s", &second)
		}
		switch n := effects.since(ctx, 2); {
		case n < 2:
			return broken(Serious, "two requests with two keys were answered with success and took effect %s", times(n))
		case n > 2:
			return broken(Critical, "two requests took effect %s", times(n))
		case !effects.known() && first.same(&second):
			return undecided(needOracle, "both requests have the same answer, which does not show whether the second acted")
		}
		return passed("two keys, two effects")
	},
}

var concurrentDuplicates = &Check{
	ID: "concurrent-duplicates", Title: "duplicates at once act once", Severity: Critical, Requests: atOnce + 1 + settles,
	Sends: []string{
		"Fifty requests with one key in the same moment, each over its own connection.",
		"The same request twice more, when all were answered.",
	},
	Why: "A double click, or a client that retries while its first request still runs.",
	Wrong: []string{
		"The operation took effect more than once, or never.",
		"A request is answered with success, but not with the answer that is kept: for example, while the first request runs.",
		"A request is answered with 500.",
	},
	Fix: "Claim the key by one atomic step that only one request can win: INSERT under a unique index, SET NX, or a store of retrysafe. A look followed by a write is two steps.",
	run: func(ctx context.Context, s *session) finding {
		effects := s.effects(ctx)
		op := s.first()
		replies := s.atOnce(ctx, slices.Repeat([]operation{op}, atOnce))
		kept := s.settleAfter(ctx, "the request again, after fifty at once", op, replies...)
		again := s.quiet(ctx, op)
		return s.judgeBurst(effects.since(ctx, 1), effects.known(), op, replies, &kept, &again)
	},
}

// judgeBurst judges fifty answers to one operation that took effect n times. kept and again are
// answers to the same operation after all of them.
func (s *session) judgeBurst(n int64, known bool, op operation, replies []reply, kept, again *reply) finding {
	var succeeded, refused, odd, failed int
	for i := range replies {
		r := &replies[i]
		switch {
		case r.ok():
			succeeded++
			if kept.ok() && kept.same(again) && !r.same(kept) {
				if odd++; odd <= 2 {
					s.show("one of fifty at once, whose answer is not the one that is kept", op, r)
				}
			}
		case r.failed() && r.status != http.StatusServiceUnavailable:
			if failed++; failed <= 2 {
				s.show("one of fifty at once", op, r)
			}
		case r.refused():
			refused++
		}
	}
	if succeeded == 0 && !kept.ok() {
		return undecided("Give a request that succeeds.", "none of fifty requests at once was answered with success; the last answer is %s", kept)
	}
	if f, ok := countedOnce(n); !ok {
		s.show("one of fifty at once", op, &replies[0])
		return f
	}
	switch {
	case odd > 0:
		return broken(Serious, "%d of fifty requests at once got a success whose answer is not the one that is kept", odd)
	case failed > 0:
		return broken(Serious, "%d of fifty requests at once were answered with a status of 500 or above", failed)
	case !known && (!s.distinct || !kept.same(again)):
		return undecided(needOracle, "%d of fifty at once succeeded and %d were refused; how many acted is not known", succeeded, refused)
	}
	return passed("fifty at once: one effect; %d were answered with success and %d refused", succeeded, refused)
}
