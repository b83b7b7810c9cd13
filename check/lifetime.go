package check

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"time"
)

var expiry = &Check{
	ID: "expiry", Title: "answers are kept as long as promised", Severity: Critical, Requests: 4,
	Sends: []string{"Two requests.", "One of them again after half of the promised time, and the other after nine tenths."},
	Why:   "A queue sends a message again after an hour, and the answer was kept for half of one.",
	Wrong: []string{"A duplicate within the promised time acts."},
	Fix:   "Keep answers longer than any client retries, and say how long.",
	run: func(ctx context.Context, s *session) finding {
		kept := s.target.Kept
		switch {
		case kept <= 0:
			return undecided("Say how long answers are kept: --kept.", "how long answers are kept is not known")
		case kept > s.o.Wait:
			return undecided("Let the check wait: --wait "+kept.String()+".", "answers are kept for %s, and a check waits at most %s", kept, s.o.Wait)
		}
		effects := s.effects(ctx)
		ops := []operation{s.first(), s.first()}
		start := time.Now()
		for _, op := range ops {
			if first := s.send(ctx, "a request", op); !first.ok() {
				return unfit(&first)
			}
		}
		for i, at := range []time.Duration{kept / 2, kept * 9 / 10} {
			s.wait(ctx, at-time.Since(start))
			again := s.send(ctx, fmt.Sprintf("the request again after %s", at), ops[i])
			if late := time.Since(start); late >= kept {
				return undecided("Try again on a machine with less to do.", "the answer came after %s, and answers are kept for %s", late, kept)
			}
			switch n := effects.since(ctx, int64(len(ops))); {
			case n > int64(len(ops)):
				return broken(Critical, "a duplicate after %s acted, and answers are to be kept for %s", at, kept)
			case !effects.known():
				return undecided(needOracle, "the duplicate after %s was answered %s; whether it acted is not known", at, &again)
			case !again.ok():
				return noted("a duplicate after %s is answered %s", at, &again)
			}
		}
		return passed("duplicates within %s do not act", kept)
	},
}

var restartAfter = &Check{
	ID: "restart-after", Title: "a restart forgets nothing", Severity: Critical, Requests: 2 + settles,
	Sends: []string{"One request.", "The service is restarted.", "The same request again."},
	Why:   "A deployment comes between the request and its retry.",
	Wrong: []string{"The duplicate acts."},
	Fix:   "Store keys outside of the process, where the effects are stored or as safely.",
	run: func(ctx context.Context, s *session) finding {
		if s.target.Restart == nil {
			return undecided("Say how the service is restarted: --restart CMD.", "the checker cannot restart the service")
		}
		effects := s.effects(ctx)
		op := s.first()
		first := s.send(ctx, "the first request", op)
		if !first.ok() {
			return unfit(&first)
		}
		before := effects.since(ctx, 1)
		s.restart(ctx)
		again := s.settle(ctx, "the same request after the restart", op)
		n := effects.since(ctx, 1)
		switch {
		case n < before:
			return undecided("Count effects where a restart does not lose them.", "the count of effects is smaller than before the restart")
		case n > 1:
			return broken(Critical, "a duplicate after a restart acted")
		case !effects.known() && (!s.distinct || !again.same(&first)):
			return undecided(needOracle, "the duplicate after a restart was answered %s; whether it acted is not known", &again)
		case !again.ok():
			return noted("a duplicate after a restart is answered %s", &again)
		}
		return passed("a duplicate after a restart gets its answer")
	},
}

var restartDuring = &Check{
	ID: "restart-during", Title: "a crash in the middle does not double", Severity: Critical, Requests: 2 + settles,
	Sends: []string{"One request, and the service is restarted before it answers.", "The same request again."},
	Why:   "A process is killed while it works.",
	Wrong: []string{
		"The operation took effect twice.",
		"The retry is answered with success, and the operation never took effect.",
	},
	Fix: "Store the effect and the answer in one transaction (DoTx), or keep an unknown outcome as in doubt.",
	run: func(ctx context.Context, s *session) finding {
		if s.target.Restart == nil {
			return undecided("Say how the service is restarted: --restart CMD.", "the checker cannot restart the service")
		}
		effects := s.effects(ctx)
		op := s.first()
		cut := s.sendDuring(ctx, op, s.restart)
		s.show("a request during which the service is restarted", op, &cut)
		retry := s.settle(ctx, "the same request after the restart", op)
		switch n := effects.since(ctx, effectsOf(&retry)); {
		case n < 0:
			return undecided("Count effects where a restart does not lose them.", "the count of effects is smaller than before the restart")
		case n > 1:
			return broken(Critical, "a request was cut by a restart and sent again: it took effect %s", times(n))
		case retry.ok() && n == 0:
			return broken(Critical, "a request was cut by a restart; its retry was answered %s, and nothing took effect", &retry)
		case !effects.known():
			return undecided(needOracle, "the retry was answered %s; how often the operation took effect is not known", &retry)
		case !retry.ok():
			return noted("after a crash in the middle the retry is answered %s: clients need another way to learn what happened", &retry)
		}
		return passed("a request that was cut by a restart took effect once")
	},
}

// restart restarts the service.
func (s *session) restart(ctx context.Context) {
	s.sender.close()
	if err := s.target.Restart(ctx); err != nil {
		panic(stop{fmt.Errorf("the service cannot be restarted: %w", err)})
	}
	s.sender.close()
}

// sendDuring sends op and calls during as soon as it was sent.
func (s *session) sendDuring(ctx context.Context, op operation, during func(context.Context)) reply {
	s.reserve(ctx, 1)
	request := s.build(&op)
	sent, answer := make(chan struct{}), make(chan reply, 1)
	go func() {
		answer <- s.sender.send(ctx, s.sender.client, request, bytes.NewReader(request.Body), sync.OnceFunc(func() { close(sent) }))
	}()
	select {
	case <-sent:
		s.wait(ctx, 2*time.Millisecond) // so that the service has begun
	case r := <-answer:
		return r
	}
	during(ctx)
	return <-answer
}
