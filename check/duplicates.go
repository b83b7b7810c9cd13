package check

import (
	"context"
	"fmt"
	"net/http"
	"slices"
)

// fewDuplicates and manyDuplicates are how often a request is repeated before its effects are
// counted, and how often in all.
const fewDuplicates, manyDuplicates = 3, 10

var sequentialDuplicate = &Check{
	ID: "sequential-duplicate", Title: "a duplicate does not act again", Severity: Critical, Requests: 1 + manyDuplicates + maxFinalRequests,
	Sends: []string{"One request.", "The same request, with the same key, three more times.", "If none of them acted, the same request seven more times."},
	Why:   "The first answer was lost on its way, and the client sends its request again.",
	Wrong: []string{
		"The operation took effect more than once, or never.",
		"The stored answer is gone after some duplicates, and a later one acts.",
		"A duplicate is answered with a status of 500 or above.",
	},
	Fix: "Store the key before the work begins, and the answer with it when the work ends. Answer each duplicate from there, however many there are.",
	run: func(ctx context.Context, s *session) finding {
		effects := s.newEffectCounter(ctx)
		op := s.newOperation()
		first := s.sendAndShow(ctx, "the first request", op)
		if !first.isSuccess() {
			return unfitFinding(&first)
		}
		d := duplicateRun{first: first}
		if f, ok := d.sendDuplicates(ctx, s, op, fewDuplicates); !ok {
			return f
		}
		if f, ok := judgeOnce(effects.awaitCount(ctx, 1)); !ok {
			return f
		}
		if s.observed.duplicateStatus == 0 {
			if f, ok := d.sendDuplicates(ctx, s, op, manyDuplicates); !ok {
				return f
			}
			if n := effects.awaitCount(ctx, 1); n > 1 {
				return brokenFinding(Critical, "%d duplicates did not act, and a later one did: of %d requests with one key, %d took effect", fewDuplicates, 1+d.sent, n)
			}
		}
		return d.judge(s, effects.isCounting())
	},
}

// duplicateRun are the duplicates of one request, one after another.
type duplicateRun struct {
	first, last reply
	sent        int
	differs     bool // a duplicate was answered with success and other bytes
}

// sendDuplicates sends duplicates of op until there are most of them. ok is false if one is
// answered with an error of the API.
func (d *duplicateRun) sendDuplicates(ctx context.Context, s *session, op operation, most int) (f finding, ok bool) {
	for d.sent < most && s.observed.duplicateStatus == 0 {
		d.sent++
		d.last = s.sendUnshown(ctx, op)
		differs := d.last.isSuccess() && !d.last.equals(&d.first)
		if d.sent <= fewDuplicates || d.last.isFailure() || differs && !d.differs {
			s.showExchange(fmt.Sprintf("duplicate %d", d.sent), op, &d.last)
		}
		d.differs = d.differs || differs
		if d.last.saysRunning() && d.sent == 1 {
			d.last = s.awaitFinalAfter(ctx, "the duplicate again, some time later", op, d.first)
		}
		if d.last.isFailure() {
			return brokenFinding(Serious, "the first answer was %s, and a duplicate was answered %s", &d.first, &d.last), false
		}
	}
	return finding{}, true
}

// judge judges duplicates that did not act where effects are known.
func (d *duplicateRun) judge(s *session, known bool) finding {
	switch {
	case d.last.isRefusal():
		return notedFinding("a duplicate does not act, and is answered %s: a client that lost the first answer cannot get it back", &d.last)
	case !d.last.isSuccess():
		return undecidedFinding("", "the duplicate got %s", &d.last)
	case !known && (d.differs || !s.distinct):
		return undecidedFinding(needOracle, "the answers do not show whether a duplicate acted")
	case !known:
		return passedFinding("%d duplicates got the first answer (effects were not counted)", d.sent)
	}
	return passedFinding("%d requests, one effect", 1+d.sent)
}

var newKey = &Check{
	ID: "new-key", Title: "a new key acts again", Severity: Serious, Requests: 2,
	Sends: []string{"One request.", "The same request with another key."},
	Why:   "A customer orders the same thing twice, on purpose.",
	Wrong: []string{"The second request gets an answer of success, and does not take effect."},
	Fix:   "Find duplicates by the key, never by what the request says.",
	run: func(ctx context.Context, s *session) finding {
		effects := s.newEffectCounter(ctx)
		op := s.newOperation()
		first := s.sendAndShow(ctx, "the first request", op)
		second := s.sendAndShow(ctx, "the same request with another key", op.withKeys(s.newKey()))
		if !first.isSuccess() {
			return unfitFinding(&first)
		}
		if !second.isSuccess() {
			return notedFinding("the same request with another key is answered %s", &second)
		}
		switch n := effects.awaitCount(ctx, 2); {
		case n < 2:
			return brokenFinding(Serious, "two requests with two keys were answered with success and took effect %s", timesText(n))
		case n > 2:
			return brokenFinding(Critical, "two requests took effect %s", timesText(n))
		case !effects.isCounting() && first.equals(&second):
			return undecidedFinding(needOracle, "both requests have the same answer, which does not show whether the second acted")
		}
		return passedFinding("two keys, two effects")
	},
}

var concurrentDuplicates = &Check{
	ID: "concurrent-duplicates", Title: "duplicates at once act once", Severity: Critical, Requests: burstSize + 1 + maxFinalRequests,
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
		effects := s.newEffectCounter(ctx)
		op := s.newOperation()
		replies := s.sendAtOnce(ctx, slices.Repeat([]operation{op}, burstSize))
		kept := s.awaitFinalAfter(ctx, "the request again, after fifty at once", op, replies...)
		again := s.sendUnshown(ctx, op)
		return s.judgeBurst(effects.awaitCount(ctx, 1), effects.isCounting(), op, replies, &kept, &again)
	},
}

// judgeBurst judges fifty answers to one operation that took effect n times. kept and again are
// answers to the same operation after all of them.
func (s *session) judgeBurst(n int64, known bool, op operation, replies []reply, kept, again *reply) finding {
	var succeeded, refused, odd, failed int
	for i := range replies {
		r := &replies[i]
		switch {
		case r.isSuccess():
			succeeded++
			if kept.isSuccess() && kept.equals(again) && !r.equals(kept) {
				if odd++; odd <= 2 {
					s.showExchange("one of fifty at once, whose answer is not the one that is kept", op, r)
				}
			}
		case r.isFailure() && r.status != http.StatusServiceUnavailable:
			if failed++; failed <= 2 {
				s.showExchange("one of fifty at once", op, r)
			}
		case r.isRefusal():
			refused++
		}
	}
	if succeeded == 0 && !kept.isSuccess() {
		return undecidedFinding("Give a request that succeeds.", "none of fifty requests at once was answered with success; the last answer is %s", kept)
	}
	if f, ok := judgeOnce(n); !ok {
		s.showExchange("one of fifty at once", op, &replies[0])
		return f
	}
	switch {
	case odd > 0:
		return brokenFinding(Serious, "%d of fifty requests at once got a success whose answer is not the one that is kept", odd)
	case failed > 0:
		return brokenFinding(Serious, "%d of fifty requests at once were answered with a status of 500 or above", failed)
	case !known && (!s.distinct || !kept.equals(again)):
		return undecidedFinding(needOracle, "%d of fifty at once succeeded and %d were refused; how many acted is not known", succeeded, refused)
	}
	return passedFinding("fifty at once: one effect; %d were answered with success and %d refused", succeeded, refused)
}
