package callback

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem"
)

// Callback guards the handler of a provider's notifications. It is safe for concurrent use.
type Callback struct {
	guard   *httpidem.Middleware
	verify  Verifier
	refused func(*http.Request, error)
	limit   int64
	time    time.Duration
	digest  bool
}

// New returns a callback. It panics if [Options.Validate] returns an error.
func New(e *retrysafe.Engine, o *Options) *Callback {
	if e == nil {
		panic("callback: New needs an engine; retrysafe.New makes one")
	}
	if o == nil {
		o = new(Options)
	}
	if err := o.Validate(e.Policy()); err != nil {
		panic(err)
	}
	own := *o
	c := &Callback{guard: httpidem.New(e, own.guardOptions()), verify: o.Verify, refused: o.OnRefused, time: o.BodyTime, digest: o.ID == Body}
	if c.time == 0 {
		c.time = 30 * time.Second
	}
	c.limit = c.guard.Options().Limit.Body
	return c
}

// Handler returns a handler that runs next once for each event. It accepts POST only, and answers
// any other method with 405. next can read the body again.
func (c *Callback) Handler(next http.Handler) http.Handler {
	guarded := c.guard.Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			w.Header().Set("Allow", http.MethodPost)
			http.Error(w, "Notifications come with POST.", http.StatusMethodNotAllowed)
			return
		}
		rc := http.NewResponseController(w)
		// a ResponseWriter without read deadlines has no connection that could be slow
		_ = rc.SetReadDeadline(time.Now().Add(c.time))
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, c.limit))
		if err != nil {
			code := "body-incomplete"
			if large := (*http.MaxBytesError)(nil); errors.As(err, &large) {
				code = "body-too-large"
			}
			c.guard.Problem(w, r, httpidem.NewProblem(code, err))
			return
		}
		_ = rc.SetReadDeadline(time.Time{})
		if err := c.verify(r, body); err != nil {
			if c.refused != nil {
				c.refused(r, err)
			}
			c.guard.Problem(w, r, httpidem.NewProblem("signature-refused", err))
			return
		}
		r = r.WithContext(r.Context())
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		if c.digest {
			sum := sha256.Sum256(body)
			r.Header = r.Header.Clone()
			r.Header[bodyDigest] = []string{hex.EncodeToString(sum[:])}
		}
		guarded.ServeHTTP(w, r)
	})
}
