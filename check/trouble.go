package check

import (
	"context"
	"net/http"
)

var afterClientError = &Check{
	ID: "after-client-error", Title: "a refused request does nothing", Severity: Critical, Requests: 3 + maxFinalRequests,
	Sends: []string{"A request that the API refuses with 400 to 428.", "The request as it should be, with the same key."},
	Why:   "A customer corrects the card number and presses the button again.",
	Wrong: []string{
		"The refused request took effect.",
		"The corrected request is answered with success and does nothing, or acts twice.",
	},
	Fix: "Validate the request before the key is claimed, or release the key when a request is refused and nothing was done.",
	run: func(ctx context.Context, s *session) finding {
		trouble := s.target.ClientError
		if trouble == nil && len(s.target.Request.Body) > 0 {
			// JSON without its end
			trouble = &Trouble{Body: s.target.Request.Body[:len(s.target.Request.Body)-1]}
		}
		return s.afterTrouble(ctx, trouble, "--client-error", func(status int) bool {
			return status/100 == 4 && status != http.StatusTooManyRequests
		})
	},
}

var afterTooMany = &Check{
	ID: "after-too-many", Title: "after 429 the retry acts", Severity: Critical, Requests: 3 + maxFinalRequests,
	Sends: []string{"A request that is answered 429.", "The same request again, when requests are accepted."},
	Why:   "429 asks the client to send the same request later. A stored 429 would be its answer for ever.",
	Wrong: []string{
		"The retry is answered 429 although other requests are accepted.",
		"The retry is answered with success and does nothing, or the operation took effect twice.",
	},
	Fix: "Count the rate before the key is claimed, and never store a 429.",
	run: func(ctx context.Context, s *session) finding {
		return s.afterTrouble(ctx, s.target.TooMany, "--too-many", func(status int) bool { return status == http.StatusTooManyRequests })
	},
}

var afterServerError = &Check{
	ID: "after-server-error", Title: "after a 5xx the retry tells the truth", Severity: Critical, Requests: 3 + maxFinalRequests,
	Sends: []string{"A request that is answered with 500 or above.", "The same request again, when the service works."},
	Why:   "A database was away for a moment. The client retries, as every guide says.",
	Wrong: []string{
		"The retry is answered with success, and the operation never took effect.",
		"The operation took effect twice.",
	},
	Fix: "Store success only after the work has succeeded. Keep an unknown outcome as in doubt.",
	run: func(ctx context.Context, s *session) finding {
		return s.afterTrouble(ctx, s.target.ServerError, "--server-error", func(status int) bool { return status/100 == 5 })
	},
}

// afterTrouble makes a request fail with a status that expected has, and sends it again without the
// trouble.
func (s *session) afterTrouble(ctx context.Context, trouble *Trouble, flag string, expected func(status int) bool) finding {
	if trouble == nil {
		return undecidedFinding("Say how to make a request fail: "+flag+".", "the checker does not know how to make the API fail in this way")
	}
	effects := s.newEffectCounter(ctx)
	op := s.newOperation()
	failed := s.sendInTrouble(ctx, trouble, op)
	if !expected(failed.status) {
		return undecidedFinding("Give another trouble: "+flag+".", "the request that was to fail was answered %s", &failed)
	}
	acted := effects.awaitCount(ctx, 0)
	if failed.isRefusal() && acted > 0 {
		return brokenFinding(Critical, "a request that was answered %s took effect", &failed)
	}
	retry := s.awaitFinal(ctx, "the request again, without the trouble", op)
	n := effects.awaitCount(ctx, max(acted, wantedEffects(&retry)))
	switch {
	case n > 1:
		return brokenFinding(Critical, "a request that was answered %s and sent again took effect %s", &failed, timesText(n))
	case retry.isSuccess() && n == 0:
		return brokenFinding(Critical, "a request was answered %s; sent again it was answered %s, and nothing took effect", &failed, &retry)
	case retry.status == http.StatusTooManyRequests:
		return s.judgeLasting429(ctx, &retry)
	case !retry.isSuccess():
		return notedFinding("after %s the same key is answered %s: clients need a new key", &failed, &retry)
	case !effects.isCounting():
		return undecidedFinding(needOracle, "after %s the request was answered %s; whether it acted once is not known", &failed, &retry)
	}
	return passedFinding("after %s the request acts", &failed)
}

// sendInTrouble sends op while the trouble is on. The trouble ends although the examination does.
func (s *session) sendInTrouble(ctx context.Context, t *Trouble, op operation) reply {
	if t.Off != nil {
		defer func() {
			if err := t.Off(context.WithoutCancel(ctx)); err != nil {
				panic(stopPanic{err})
			}
		}()
	}
	if t.On != nil {
		if err := t.On(ctx); err != nil {
			panic(stopPanic{err})
		}
	}
	op = op.withChange(func(r *Request) {
		for name, values := range t.Header {
			r.Header[http.CanonicalHeaderKey(name)] = values
		}
		if t.Body != nil {
			r.Body = t.Body
		}
	})
	r := s.sendOnce(ctx, op) // 429 may be what is wanted
	s.showExchange("a request that fails", op, &r)
	return r
}

// judgeLasting429 tells a stored 429 from an API that still accepts nothing.
func (s *session) judgeLasting429(ctx context.Context, retry *reply) finding {
	if other := s.sendAndShow(ctx, "a request with a key of its own", s.newOperation()); !other.isSuccess() {
		return undecidedFinding("", "the API still answers %s", &other)
	}
	return brokenFinding(Serious, "a request is answered %s again and again, while a request with another key is accepted", retry)
}
