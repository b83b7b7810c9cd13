package main

import (
	"fmt"
	"strings"
	"time"
)

// slack is what a busy machine may add to a time. It is well below a lease, or a doubt that is told
// only after the lease would pass.
const slack = lease / 2

// settling is how long the end of an attempt may take to reach the store: a disk that many share
// takes a second for one flush now and then. A process that is killed before has left the key in
// progress.
const settling = lease

// blockedBy looks at each time that a key was said to be in progress: some attempt must have been
// alive shortly before. An attempt lives while the service works on it (after the client was told
// that nobody knows too, for the gateway reads on), but not longer than MaxRun; that of a process
// that was killed, until its lease has passed. It returns the longest time that a key was in
// progress behind the death of the process that had it.
func (s *soak) blockedBy(op *operation) (longest time.Duration) {
	works := s.service.works(op.key)
	for _, q := range op.asks {
		if !q.inProgress {
			continue
		}
		var until, died time.Time
		for _, r := range op.asks {
			if !r.mayHold || !r.sent.Before(q.done) {
				continue
			}
			if end, death := s.endOf(&r, works, q.sent); end.After(until) {
				until, died = end, death
			}
		}
		if over := q.sent.Sub(until); over > slack {
			s.wrong(blocked, "key %s was in progress %v after the last attempt could be alive\n%s", op.key, over, s.history(op, works))
		}
		if !died.IsZero() {
			longest = max(longest, q.sent.Sub(died))
		}
	}
	return longest
}

// history is what happened to a key, in seconds since it was first asked for.
func (s *soak) history(op *operation, works []work) string {
	var text strings.Builder
	first := op.asks[0].sent
	at := func(t time.Time) float64 { return t.Sub(first).Seconds() }
	for _, q := range op.asks {
		fmt.Fprintf(&text, "asked %.2f to %.2f, in progress %v, may hold %v\n", at(q.sent), at(q.done), q.inProgress, q.mayHold)
	}
	for _, w := range works {
		fmt.Fprintf(&text, "the service worked %.2f to %.2f\n", at(w.begin), at(w.end))
	}
	for _, k := range s.kills {
		fmt.Fprintf(&text, "the gateway was killed at %.2f\n", at(k))
	}
	return text.String()
}

// endOf is when the attempt that r may have begun no longer blocks its key; death, if it is set, is
// that of its process.
func (s *soak) endOf(r *ask, works []work, now time.Time) (end, death time.Time) {
	for _, k := range s.kills {
		if k.After(r.sent) {
			death = k
			break
		}
	}
	end = r.done
	for _, w := range works {
		if w.begin.Before(r.sent) || !death.IsZero() && w.begin.After(death) {
			continue
		}
		if w.end.IsZero() || w.end.After(now) {
			w.end = now
		}
		if most := w.begin.Add(maxRun); w.end.After(most) {
			w.end = most
		}
		if w.end.After(end) {
			end = w.end
		}
	}
	if !death.IsZero() && death.Before(end.Add(settling)) {
		return death.Add(lease), death
	}
	if s.reexecute {
		end = end.Add(lease) // it is left to lapse
	}
	return end, time.Time{}
}
