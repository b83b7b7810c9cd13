package httpidem

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/fingerprint"
	"github.com/retrysafe/retrysafe/internal/notrun"
	"github.com/retrysafe/retrysafe/internal/reqfield"
)

// run runs the handler, under a context that does not end when the client hangs up.
func (m *Middleware) run(w http.ResponseWriter, r *http.Request, next http.Handler, a *retrysafe.Attempt, body *buffer, id string) {
	inner := r.WithContext(a.Context())
	inner.Header = maps.Clone(r.Header)
	// a duplicate may not accept the coding that the first request did
	inner.Header["Accept-Encoding"] = identity
	if strings.HasPrefix(id, madeMark) {
		// inner services can recognise duplicates by this key. Another caller, or a later request,
		// has another key.
		for _, name := range m.o.KeySource.Header {
			delete(inner.Header, name)
		}
		inner.Header[m.o.KeySource.Header[0]] = []string{a.KeyFor(forwarded)}
	}
	inner.Body, inner.ContentLength, inner.GetBody = body.body(), int64(len(body.b)), nil
	inner.TransferEncoding = nil
	m.work(newCapture(m, w, r), inner, next, a)
}

// work runs next with c as its ResponseWriter, and finishes the attempt by the answer.
func (m *Middleware) work(c *capture, inner *http.Request, next http.Handler, a *retrysafe.Attempt) {
	c.attempt, c.inner = a, inner
	defer func() {
		if !c.closed { // a panic or Goexit is under way; it is not stopped
			c.crash()
		}
		if !a.Ended() && !c.detached {
			m.crashed(inner.Context(), a)
		}
		c.body.free()
		if c.head != nil {
			c.head.free()
		}
	}()
	next.ServeHTTP(c, inner)
	c.close()
	m.settle(c)
}

var identity = []string{"identity"}

var errNotExecuted = retrysafe.NothingDone(errors.New("the handler says that nothing was done"))

var errHandlerCrashed = errors.New("the handler panicked or ended its goroutine")

func (m *Middleware) crashed(ctx context.Context, a *retrysafe.Attempt) {
	if m.policy.OnDoubt == retrysafe.Reexecute {
		_ = a.Release(ctx, errHandlerCrashed)
		return
	}
	_ = a.LeaveInDoubt(ctx, errHandlerCrashed)
}

// settle records what the handler did, and then sends the answer: an answer that a client has
// received in full is stored.
func (m *Middleware) settle(c *capture) {
	a, ctx := c.attempt, c.r.Context()
	if a.Ended() || c.detached { // the handler has finished the attempt itself, or will
		c.send(false)
		return
	}
	switch m.classify(c) {
	case retrysafe.NotDone:
		var why error
		if c.outcome == "not-executed" {
			why = errNotExecuted // accepted even if the lease was lost
		}
		_ = a.Release(ctx, why) // if the release fails, the lease expires
		c.send(false)
		return
	case retrysafe.Doubtful:
		_ = a.LeaveInDoubt(ctx, nil)
		c.send(false)
		return
	}
	switch err := a.Complete(ctx, c.stored()); {
	case err == nil:
		c.send(false)
	case errors.Is(err, retrysafe.ErrUnconfirmed):
		c.send(true)
	case errors.Is(err, retrysafe.ErrLeaseLost):
		m.refuse(c, problemFor(retrysafe.CodeLeaseLost, err).WithRetryAfter(time.Second))
	case errors.Is(err, retrysafe.ErrStepsChanged):
		// the handler's answer does not finish what an earlier attempt began
		m.refuse(c, problemFor(retrysafe.CodeOutcomeUnknown, err))
	default:
		// The store refuses the answer. The work is done, and a duplicate gets "in doubt".
		c.send(true)
	}
}

// refuse answers with a problem in place of the handler's answer. If that is already being sent, it
// cuts the connection.
func (m *Middleware) refuse(c *capture, p *Problem) {
	if c.hijacked {
		return // the handler owns the connection
	}
	if c.streaming {
		panic(http.ErrAbortHandler)
	}
	c.restore()
	m.Problem(c.w, c.r, p)
}

// NotRun reports whether an answer with this status says that the request was not processed, so
// that its key is released under every policy: 307, 308, 401, 403, 407, 408, 421, 425, 426, 428,
// 429 and 431. Of 307 and 308 that holds only if Location has the path of the request, apart from a
// slash at its end and from upper case. See docs/outcomes.md.
func NotRun(status int) bool {
	releases, _ := notrun.Status(status)
	return releases
}

// mayRelease reports whether AnswerOptions.NotRun may have a status under Refuse. Success is an
// outcome. 500, 502 and 504 may come from a service, or from a proxy before it, after the request
// has taken effect.
func mayRelease(status int) bool {
	switch status {
	case http.StatusInternalServerError, http.StatusBadGateway, http.StatusGatewayTimeout:
		return false
	}
	return status >= 300 && status <= 599
}

// validateNotRun reports what is wrong with NotRun under the policy p.
func (o *Options) validateNotRun(p *retrysafe.Policy, wrong func(format string, args ...any)) {
	for _, status := range o.Answer.NotRun {
		switch {
		case status < 300 || status > 599:
			wrong("NotRun has %d; use statuses of 300 to 599 that the service answers before it acts", status)
		case p.OnDoubt != retrysafe.Reexecute && !mayRelease(status):
			wrong("NotRun has %d, which also comes after a request has taken effect; leave it out, or set Policy.OnDoubt to Reexecute", status)
		}
	}
}

// notRun reports whether the status of an answer releases the key. What a status of 500 and above
// means is up to After5xx.
func (m *Middleware) notRun(c *capture) bool {
	if slices.Contains(m.o.Answer.NotRun, c.status) {
		return true
	}
	switch releases, ifSamePath := notrun.Status(c.status); {
	case ifSamePath:
		return samePath(c.r, c.header.Get("Location"))
	case releases:
		return true
	}
	return m.policy.OnDoubt == retrysafe.Reexecute && c.status < 500 && notrun.StatusUnderReexecute(c.status)
}

// samePath reports whether a redirect leads to the path of the request, apart from what frameworks
// add by themselves: another host or scheme, a slash at the end, lower case. A handler that has
// acted sends its client to another page.
func samePath(r *http.Request, location string) bool {
	target, err := url.Parse(location)
	if err != nil || location == "" {
		return false
	}
	asked, err := url.Parse(sentPath(r))
	if err != nil {
		return false
	}
	plain := func(u *url.URL) string { return strings.ToLower(strings.TrimRight(u.EscapedPath(), "/")) }
	return plain(asked.ResolveReference(target)) == plain(asked)
}

// classify returns what the answer means for the key.
func (m *Middleware) classify(c *capture) retrysafe.Outcome {
	refuse := m.policy.OnDoubt == retrysafe.Refuse
	if c.hijacked {
		return retrysafe.Done
	}
	if c.outcome == "not-executed" {
		return retrysafe.NotDone
	}
	if m.o.Answer.Classify != nil {
		switch o := m.o.Answer.Classify(c.status, c.header); {
		case o == retrysafe.NotDone && refuse && !m.notRun(c):
			return retrysafe.Doubtful
		case o != 0:
			return o
		}
	}
	if c.outcome == "executed" {
		return retrysafe.Done
	}
	if c.status >= 300 && m.notRun(c) { // success is an outcome
		return retrysafe.NotDone
	}
	if c.status >= 500 && (m.o.Answer.After5xx == After5xxRelease || m.o.Answer.After5xx == After5xxAuto && !refuse) {
		return retrysafe.NotDone
	}
	if m.outcome != nil && c.over == nil && m.outcome.saysNotRun(c.status, c.w.Header(), c.body.b) {
		return retrysafe.NotDone
	}
	return retrysafe.Done
}

// BodyOutcome says where answers of 200 to 299 have the outcome, for services that answer a refusal
// with 200 and {"code": 500}. It is looked for in answers whose Content-Type is JSON, up to the
// MaxAnswer of the policy. Their values are compared as texts: a number as "500", also if it is
// written 500.0, and true and false as "true" and "false".
type BodyOutcome struct {
	// Field is a member of the answer: "code", "$.result.code" or "/result/code".
	Field string
	// Done has the values of work that was done. Any other value, and an answer without the field,
	// is a refusal: it is stored and replayed, also under the policy Succeed.
	Done []string
	// NotRun has the values of requests that certainly did nothing: the key is released, and a
	// retry runs. List only what the service answers before it acts. The answer
	// "Idempotency-Outcome: executed" takes precedence.
	NotRun []string
}

// bodyOutcome is a BodyOutcome that was checked.
type bodyOutcome struct {
	path         []string
	done, notRun []string
}

// Validate reports what is wrong with b. It returns nil if b is valid.
func (b *BodyOutcome) Validate() error {
	_, err := b.compile()
	if err != nil {
		return fmt.Errorf("httpidem: Outcome: %w", err)
	}
	return nil
}

// compile checks b. It returns nil and no error if b is nil.
func (b *BodyOutcome) compile() (*bodyOutcome, error) {
	if b == nil {
		return nil, nil //nolint:nilnil // the status says how a request ended
	}
	f, err := reqfield.Parse(b.Field)
	switch {
	case err != nil:
		return nil, err
	case !f.InBody():
		return nil, fmt.Errorf("%q is no member of a body; write it like /code", b.Field)
	case len(b.Done) == 0:
		return nil, errors.New("Done has no value; name those of work that was done, for example 0")
	}
	for _, value := range b.NotRun {
		if slices.Contains(b.Done, value) {
			return nil, fmt.Errorf("%q is in Done and in NotRun; take it out of one", value)
		}
	}
	return &bodyOutcome{path: f.Path(), done: slices.Clone(b.Done), notRun: slices.Clone(b.NotRun)}, nil
}

// saysNotRun reports whether an answer says that nothing was done.
func (b *bodyOutcome) saysNotRun(status int, h http.Header, body []byte) bool {
	if status < 200 || status > 299 || len(b.notRun) == 0 {
		return false
	}
	value, ok := b.value(h, body)
	return ok && slices.Contains(b.notRun, value)
}

// saysDone reports whether an answer says that the work was done.
func (b *bodyOutcome) saysDone(status int, h http.Header, body []byte) bool {
	if status < 200 || status > 299 {
		return status < 400
	}
	value, ok := b.value(h, body)
	return ok && slices.Contains(b.done, value)
}

// value returns the outcome as text; ok is false if the answer has none.
func (b *bodyOutcome) value(h http.Header, body []byte) (text string, ok bool) {
	media, _, ok := reqfield.Media(h)
	if !ok || !fingerprint.IsJSON(media) {
		return "", false
	}
	raw := json.RawMessage(body)
	for _, name := range b.path {
		var object map[string]json.RawMessage
		if json.Unmarshal(raw, &object) != nil {
			return "", false
		}
		if raw, ok = object[name]; !ok {
			return "", false
		}
	}
	return scalarText(raw)
}

// scalarText returns a value of JSON as text, unless it is an object or an array.
func scalarText(raw json.RawMessage) (text string, ok bool) {
	switch {
	case len(raw) == 0 || raw[0] == '{' || raw[0] == '[':
		return "", false
	case raw[0] == '"':
		return text, json.Unmarshal(raw, &text) == nil
	}
	text = strings.TrimSpace(string(raw))
	if n, err := strconv.ParseFloat(text, 64); err == nil && n > -1<<53 && n < 1<<53 && n == float64(int64(n)) {
		return strconv.FormatInt(int64(n), 10), true
	}
	return text, true
}
