package check

import (
	"context"
	"fmt"
	"time"
)

// effects counts what a check brings about.
type effects struct {
	s      *session
	before int64
}

// effects begins to count. An effect of an earlier check that is late must not be taken for one of
// this check: the count has to stand still first.
func (s *session) effects(ctx context.Context) *effects {
	e := &effects{s: s}
	if s.target.Oracle != nil {
		e.before = s.still(ctx)
	}
	return e
}

// known reports whether effects are counted at all.
func (e *effects) known() bool { return e.s.target.Oracle != nil }

// since returns the number of effects since the count began. It waits until there are want, and
// then a moment for one more. It returns want where effects are not counted.
func (e *effects) since(ctx context.Context, want int64) int64 {
	if !e.known() {
		return want
	}
	start := time.Now()
	deadline := start.Add(e.s.o.Patience)
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, 200*time.Millisecond) {
		asked := time.Since(start) // without the time of a slow oracle
		n := e.s.count(ctx) - e.before
		if n > want {
			return n
		}
		if n == want {
			e.s.sender.sawEffectAfter(asked)
		}
		if n == want || time.Now().After(deadline) {
			return e.s.still(ctx) - e.before
		}
		e.s.wait(ctx, pause)
	}
}

// still returns the count once it has not changed for a moment. The moment is longer where effects
// came late before: a late effect of a request that no check counted must not be taken for one of
// the next check.
func (s *session) still(ctx context.Context) int64 {
	deadline := time.Now().Add(s.o.Patience)
	for n := s.count(ctx); ; {
		s.wait(ctx, s.o.Settle+s.sender.lateness()*3/2)
		now := s.count(ctx)
		if now == n {
			return n
		}
		if n = now; time.Now().After(deadline) {
			panic(stop{fmt.Errorf("the number of effects (%s) does not stand still: something else acts on the API", s.target.Oracle)})
		}
	}
}

func (s *session) count(ctx context.Context) int64 {
	s.sender.close() // an idle connection may be all that a small service has
	n, err := s.target.Oracle.Count(ctx)
	if err != nil {
		panic(stop{fmt.Errorf("the effects (%s) cannot be counted: %w", s.target.Oracle, err)})
	}
	return n
}

// times says how often something happened.
func times(n int64) string {
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
