package check

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"time"
)

// Answer makes the Proxy answer each new request with status itself, until Pass. The service does
// not get these requests, and they are not counted. A status that is not within 400 to 599 is
// a programming error and panics.
func (p *Proxy) Answer(status int) {
	if status < 400 || status > 599 {
		panic("check: Proxy.Answer with the status " + strconv.Itoa(status))
	}
	p.trouble.Store(int64(status))
}

// Pass ends what Answer began.
func (p *Proxy) Pass() { p.trouble.Store(0) }

// Delay makes the Proxy hold each answer back for d after it has come and was counted; 0 ends that.
// Answers that are held already are not changed. A client that goes away ends the wait.
func (p *Proxy) Delay(d time.Duration) { p.delay.Store(int64(max(0, d))) }

// ClientError returns a Trouble in which the Proxy answers 400.
func (p *Proxy) ClientError() *Trouble { return p.newTrouble(http.StatusBadRequest) }

// TooMany returns a Trouble in which the Proxy answers 429.
func (p *Proxy) TooMany() *Trouble { return p.newTrouble(http.StatusTooManyRequests) }

// ServerError returns a Trouble in which the Proxy answers 500.
func (p *Proxy) ServerError() *Trouble { return p.newTrouble(http.StatusInternalServerError) }

func (p *Proxy) newTrouble(status int) *Trouble {
	return &Trouble{
		On:  func(context.Context) error { p.Answer(status); return nil },
		Off: func(context.Context) error { p.Pass(); return nil },
	}
}

// answerInstead answers r in place of the service.
func (p *Proxy) answerInstead(w http.ResponseWriter, r *http.Request, status int) {
	// an answer before the end of the body would look like a cut connection to some clients
	_, _ = io.Copy(io.Discard, http.MaxBytesReader(w, r.Body, maxForwarded))
	if p.awaitDelay(r.Context()) != nil {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, `{"error":"`+http.StatusText(status)+`, answered by the proxy of retrysafe check"}`+"\n")
}

// awaitDelay holds an answer back.
func (p *Proxy) awaitDelay(ctx context.Context) error {
	d := time.Duration(p.delay.Load())
	if d == 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
