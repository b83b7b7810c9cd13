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
			return undecidedFinding("Say how long answers are kept: --kept.", "how long answers are kept is not known")
		case kept > s.options.Wait:
			return undecidedFinding("Let the check wait: --wait "+kept.String()+".", "answers are kept for %s, and a check waits at most %s", kept, s.options.Wait)
		}
		effects := s.newEffectCounter(ctx)
		ops := []operation{s.newOperation(), s.newOperation()}
		start := time.Now()
		for _, op := range ops {
			if first := s.sendAndShow(ctx, "a request", op); !first.isSuccess() {
				return unfitFinding(&first)
			}
		}
		for i, at := range []time.Duration{kept / 2, kept * 9 / 10} {
			s.wait(ctx, at-time.Since(start))
			again := s.sendAndShow(ctx, fmt.Sprintf("the request again after %s", at), ops[i])
			if late := time.Since(start); late >= kept {
				return undecidedFinding("Try again on a machine with less to do.", "the answer came after %s, and answers are kept for %s", late, kept)
			}
			switch n := effects.awaitCount(ctx, int64(len(ops))); {
			case n > int64(len(ops)):
				return brokenFinding(Critical, "a duplicate after %s acted, and answers are to be kept for %s", at, kept)
			case !effects.isCounting():
				return undecidedFinding(needOracle, "the duplicate after %s was answered %s; whether it acted is not known", at, &again)
			case !again.isSuccess():
				return notedFinding("a duplicate after %s is answered %s", at, &again)
			}
		}
		return passedFinding("duplicates within %s do not act", kept)
	},
}

var restartAfter = &Check{
	ID: "restart-after", Title: "a restart forgets nothing", Severity: Critical, Requests: 2 + maxFinalRequests,
	Sends: []string{"One request.", "The service is restarted.", "The same request again."},
	Why:   "A deployment comes between the request and its retry.",
	Wrong: []string{"The duplicate acts."},
	Fix:   "Store keys outside of the process, where the effects are stored or as safely.",
	run: func(ctx context.Context, s *session) finding {
		if s.target.Restart == nil {
			return undecidedFinding("Say how the service is restarted: --restart CMD.", "the checker cannot restart the service")
		}
		effects := s.newEffectCounter(ctx)
		op := s.newOperation()
		first := s.sendAndShow(ctx, "the first request", op)
		if !first.isSuccess() {
			return unfitFinding(&first)
		}
		before := effects.awaitCount(ctx, 1)
		s.restartService(ctx)
		again := s.awaitFinal(ctx, "the same request after the restart", op)
		n := effects.awaitCount(ctx, 1)
		switch {
		case n < before:
			return undecidedFinding("Count effects where a restart does not lose them.", "the count of effects is smaller than before the restart")
		case n > 1:
			return brokenFinding(Critical, "a duplicate after a restart acted")
		case !effects.isCounting() && (!s.distinct || !again.equals(&first)):
			return undecidedFinding(needOracle, "the duplicate after a restart was answered %s; whether it acted is not known", &again)
		case !again.isSuccess():
			return notedFinding("a duplicate after a restart is answered %s", &again)
		}
		return passedFinding("a duplicate after a restart gets its answer")
	},
}

var restartDuring = &Check{
	ID: "restart-during", Title: "a crash in the middle does not double", Severity: Critical, Requests: 2 + maxFinalRequests,
	Sends: []string{"One request, and the service is restarted before it answers.", "The same request again."},
	Why:   "A process is killed while it works.",
	Wrong: []string{
		"The operation took effect twice.",
		"The retry is answered with success, and the operation never took effect.",
	},
	Fix: "Store the effect and the answer in one transaction (DoTx), or keep an unknown outcome as in doubt.",
	run: func(ctx context.Context, s *session) finding {
		if s.target.Restart == nil {
			return undecidedFinding("Say how the service is restarted: --restart CMD.", "the checker cannot restart the service")
		}
		effects := s.newEffectCounter(ctx)
		op := s.newOperation()
		cut := s.sendDuring(ctx, op, s.restartService)
		s.showExchange("a request during which the service is restarted", op, &cut)
		retry := s.awaitFinal(ctx, "the same request after the restart", op)
		switch n := effects.awaitCount(ctx, wantedEffects(&retry)); {
		case n < 0:
			return undecidedFinding("Count effects where a restart does not lose them.", "the count of effects is smaller than before the restart")
		case n > 1:
			return brokenFinding(Critical, "a request was cut by a restart and sent again: it took effect %s", timesText(n))
		case retry.isSuccess() && n == 0:
			return brokenFinding(Critical, "a request was cut by a restart; its retry was answered %s, and nothing took effect", &retry)
		case !effects.isCounting():
			return undecidedFinding(needOracle, "the retry was answered %s; how often the operation took effect is not known", &retry)
		case !retry.isSuccess():
			return notedFinding("after a crash in the middle the retry is answered %s: clients need another way to learn what happened", &retry)
		}
		return passedFinding("a request that was cut by a restart took effect once")
	},
}

// restartService restarts the service.
func (s *session) restartService(ctx context.Context) {
	s.sender.closeIdle()
	if err := s.target.Restart(ctx); err != nil {
		panic(stopPanic{fmt.Errorf("the service cannot be restarted: %w", err)})
	}
	s.sender.closeIdle()
}

// sendDuring sends op and calls during as soon as it was sent.
func (s *session) sendDuring(ctx context.Context, op operation, during func(context.Context)) reply {
	s.mustReserve(ctx, 1)
	request := s.buildRequest(&op)
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
