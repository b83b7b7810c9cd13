package httpidem

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem/fingerprint"
	"github.com/retrysafe/retrysafe/internal/notrun"
	"github.com/retrysafe/retrysafe/internal/reqfield"
)

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

// saysNotRun reports whether the status of an answer releases the key. What a status of 500 and
// above means is up to After5xx.
func (m *Middleware) saysNotRun(c *capture) bool {
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

// classifyAnswer returns what the answer means for the key.
func (m *Middleware) classifyAnswer(c *capture) retrysafe.Outcome {
	refuse := m.policy.OnDoubt == retrysafe.Refuse
	if c.hijacked {
		return retrysafe.Done
	}
	if c.outcome == "not-executed" {
		return retrysafe.NotDone
	}
	if m.o.Answer.Classify != nil {
		switch o := m.o.Answer.Classify(c.status, c.header); {
		case o == retrysafe.NotDone && refuse && !m.saysNotRun(c):
			return retrysafe.Doubtful
		case o != 0:
			return o
		}
	}
	if c.outcome == "executed" {
		return retrysafe.Done
	}
	if c.status >= 300 && m.saysNotRun(c) { // success is an outcome
		return retrysafe.NotDone
	}
	if c.status >= 500 && (m.o.Answer.After5xx == After5xxRelease || m.o.Answer.After5xx == After5xxAuto && !refuse) {
		return retrysafe.NotDone
	}
	if m.outcome != nil && c.overLimitHash == nil && m.outcome.saysNotRun(c.status, c.w.Header(), c.body.b) {
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
