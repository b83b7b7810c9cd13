package httpidem

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/retrysafe/retrysafe/fingerprint"
	"github.com/retrysafe/retrysafe/internal/reqfield"
)

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
	if b == nil || status < 200 || status > 299 || len(b.notRun) == 0 {
		return false
	}
	value, ok := b.value(h, body)
	return ok && slices.Contains(b.notRun, value)
}

// saysDone reports whether an answer says that the work was done.
func (b *bodyOutcome) saysDone(status int, h http.Header, body []byte) bool {
	if b == nil || status < 200 || status > 299 {
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
