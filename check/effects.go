package check

import (
	"context"
	"fmt"
	"time"
)

// effectCounter counts what a check brings about.
type effectCounter struct {
	session *session
	before  int64
}

// newEffectCounter begins to count. An effect of an earlier check that is late must not be taken
// for one of this check: the count has to stand still first.
func (s *session) newEffectCounter(ctx context.Context) *effectCounter {
	e := &effectCounter{session: s}
	if s.target.Oracle != nil {
		e.before = s.stableCount(ctx)
	}
	return e
}

// isCounting reports whether effects are counted at all.
func (e *effectCounter) isCounting() bool { return e.session.target.Oracle != nil }

// awaitCount returns the number of effects since the count began. It waits until there are want,
// and then a moment for one more. It returns want where effects are not counted.
func (e *effectCounter) awaitCount(ctx context.Context, want int64) int64 {
	if !e.isCounting() {
		return want
	}
	start := time.Now()
	deadline := start.Add(e.session.options.Patience)
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, 200*time.Millisecond) {
		asked := time.Since(start) // without the time of a slow oracle
		n := e.session.countEffects(ctx) - e.before
		if n > want {
			return n
		}
		if n == want {
			e.session.sender.noteEffectDelay(asked)
		}
		if n == want || time.Now().After(deadline) {
			return e.session.stableCount(ctx) - e.before
		}
		e.session.wait(ctx, pause)
	}
}

// stableCount returns the count once it has not changed for a moment. The moment is longer where
// effects came late before: a late effect of a request that no check counted must not be taken for
// one of the next check.
func (s *session) stableCount(ctx context.Context) int64 {
	deadline := time.Now().Add(s.options.Patience)
	for n := s.countEffects(ctx); ; {
		s.wait(ctx, s.options.Settle+s.sender.effectDelay()*3/2)
		now := s.countEffects(ctx)
		if now == n {
			return n
		}
		if n = now; time.Now().After(deadline) {
			panic(stopPanic{fmt.Errorf("the number of effects (%s) keeps changing: something else acts on the API; stop it, and run the checks again", s.target.Oracle)})
		}
	}
}

func (s *session) countEffects(ctx context.Context) int64 {
	s.sender.closeIdle() // an idle connection may be all that a small service has
	n, err := s.target.Oracle.Count(ctx)
	if err != nil {
		panic(stopPanic{fmt.Errorf("the effects (%s) cannot be counted: %w", s.target.Oracle, err)})
	}
	return n
}

// timesText says how often something happened.
func timesText(n int64) string {
	switch n {
	case 0:
		return "never"
	case 1:
		return "once"
	case 2:
		return "twice"
	}
	return fmt.Sprintf("%d times", n)
}
