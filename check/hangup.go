package check

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// hangUpDelays are the times from the end of a request to the end of its connection.
var hangUpDelays = []time.Duration{0, 2 * time.Millisecond, 10 * time.Millisecond, 50 * time.Millisecond}

var hangUp = &Check{
	ID: "hang-up", Title: "a client that hangs up can retry", Severity: Critical, Requests: 4 + 4*maxFinalRequests,
	Sends: []string{
		"Four requests whose connections are closed 0, 2, 10 and 50 ms after the request was sent.",
		"Each of them again until the answer no longer says that the first request runs.",
	},
	Why: "A phone loses its network, or a proxy times out: the request arrived, and its client does not know.",
	Wrong: []string{
		"The operation took effect more than once.",
		"The retry is answered with success, and the operation never took effect.",
	},
	Fix: "Finish the work and store its answer even if the client has gone. Keep the key claimed until then.",
	run: func(ctx context.Context, s *session) finding {
		lost := ""
		for _, after := range hangUpDelays {
			effects := s.newEffectCounter(ctx)
			op := s.newOperation()
			s.sendAndHangUp(ctx, op, after)
			s.showExchange(fmt.Sprintf("a request whose connection is closed %s after it was sent", after), op, &reply{err: errClosed})
			retry := s.awaitFinal(ctx, "the retry", op)
			switch n := effects.awaitCount(ctx, wantedEffects(&retry)); {
			case n > 1:
				return brokenFinding(Critical, "a client hung up after %s and sent its request again: it took effect %s", after, timesText(n))
			case retry.isSuccess() && n == 0:
				return brokenFinding(Critical, "a client hung up after %s; its retry was answered %s, and nothing took effect", after, &retry)
			case !retry.isSuccess():
				lost = fmt.Sprintf("after a hang-up the retry is answered %s", &retry)
			}
		}
		switch {
		case s.target.Oracle == nil:
			return undecidedFinding(needOracle, "whether an operation took effect twice is not known")
		case lost != "":
			return notedFinding("%s: clients need another way to learn what happened", lost)
		}
		return passedFinding("four clients hung up and retried: one effect each")
	},
}

// errClosed is what is shown in place of the answer of a request whose connection was closed.
var errClosed = errors.New("the client closed the connection")

// wantedEffects returns how many effects the operation has that was answered by r.
func wantedEffects(r *reply) int64 {
	if r.isSuccess() {
		return 1
	}
	return 0
}

// sendAndHangUp sends op and closes its connection when after has passed since the last byte was
// sent.
func (s *session) sendAndHangUp(ctx context.Context, op operation, after time.Duration) {
	s.mustReserve(ctx, 1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var timer *time.Timer
	var mu sync.Mutex
	request := s.buildRequest(&op)
	s.sender.send(ctx, s.sender.client, request, bytes.NewReader(request.Body), func() {
		mu.Lock()
		defer mu.Unlock()
		timer = time.AfterFunc(after, cancel)
	})
	mu.Lock()
	defer mu.Unlock()
	if timer != nil {
		timer.Stop()
	}
}

var halfBody = &Check{
	ID: "half-body", Title: "half a request does nothing", Severity: Critical, Requests: 1 + maxFinalRequests,
	Sends: []string{"The head and half of the body; then the connection is closed.", "The whole request with the same key."},
	Why:   "The network is lost while the client sends.",
	Wrong: []string{
		"The operation took effect more than once, or was answered with success and never did.",
		"The key is spent: the whole request is refused.",
	},
	Fix: "Read the whole body before the key is claimed.",
	run: func(ctx context.Context, s *session) finding {
		op := s.newOperation()
		request := s.buildRequest(&op)
		if len(request.Body) < 2 {
			return undecidedFinding("", "the request has no body that could be cut in half")
		}
		effects := s.newEffectCounter(ctx)
		s.mustReserve(ctx, 1)
		half := io.MultiReader(bytes.NewReader(request.Body[:len(request.Body)/2]), brokenReader{})
		cut := s.sender.send(ctx, s.sender.unbuffered, request, half, nil)
		s.showExchange("half of the request, then the connection is closed", op, &cut)
		retry := s.awaitFinalFully(ctx, "the whole request", op)
		switch n := effects.awaitCount(ctx, wantedEffects(&retry)); {
		case n > 1:
			return brokenFinding(Critical, "half a request and then the whole took effect %s", timesText(n))
		case retry.isSuccess() && n == 0:
			return brokenFinding(Critical, "after half a request the whole was answered %s, and nothing took effect", &retry)
		case !retry.isSuccess():
			return brokenFinding(Serious, "after half a request the whole is answered %s: the key is spent", &retry)
		}
		return passedFinding("half a request does nothing, and the whole acts")
	},
}

// brokenReader ends a body in its middle.
type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, errClosed }
