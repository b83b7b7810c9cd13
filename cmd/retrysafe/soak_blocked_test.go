package main

import (
	"fmt"
	"strings"
	"time"
)

// slack is what a busy machine may add to a duration. It is well below a lease, so it does not hide
// a doubt that is reported only after the lease.
const slack = lease / 2

// settling is how long the end of an attempt may take to reach the store: on a shared disk a flush
// sometimes takes a second. A process that is killed before has left the key in progress.
const settling = lease

// blockedBy checks each answer that said that a key was in progress: some attempt must have been
// alive shortly before. An attempt is alive while the service works on it, but not longer than
// MaxRun. That includes the time after the client got an unknown outcome, since the gateway reads
// on. The attempt of a killed process is alive until its lease has expired. blockedBy returns the
// longest time that a key was in progress after the death of its process.
func (s *soak) blockedBy(op *operation) (longest time.Duration) {
	works := s.service.worksOf(op.key)
	for _, q := range op.requests {
		if !q.inProgress {
			continue
		}
		var until, died time.Time
		for _, r := range op.requests {
			if !r.mayHoldKey || !r.sent.Before(q.done) {
				continue
			}
			if end, death := s.endOf(&r, works, q.sent); end.After(until) {
				until, died = end, death
			}
		}
		if over := q.sent.Sub(until); over > slack {
			s.report(blocked, "key %s was in progress %v after the last attempt could be alive\n%s", op.key, over, s.historyOf(op, works))
		}
		if !died.IsZero() {
			longest = max(longest, q.sent.Sub(died))
		}
	}
	return longest
}

// historyOf returns the events of a key, in seconds since its first request.
func (s *soak) historyOf(op *operation, works []work) string {
	var text strings.Builder
	first := op.requests[0].sent
	at := func(t time.Time) float64 { return t.Sub(first).Seconds() }
	for _, q := range op.requests {
		fmt.Fprintf(&text, "asked %.2f to %.2f, in progress %v, may hold %v\n", at(q.sent), at(q.done), q.inProgress, q.mayHoldKey)
	}
	for _, w := range works {
		fmt.Fprintf(&text, "the service worked %.2f to %.2f\n", at(w.begin), at(w.end))
	}
	for _, k := range s.kills {
		fmt.Fprintf(&text, "the gateway was killed at %.2f\n", at(k))
	}
	return text.String()
}

// endOf returns the time when the attempt that r may have begun stops blocking its key. death, if
// it is set, is when its process died.
func (s *soak) endOf(r *callerRequest, works []work, now time.Time) (end, death time.Time) {
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
		end = end.Add(lease) // the lease is left to expire
	}
	return end, time.Time{}
}
