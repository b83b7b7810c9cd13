package httpidem

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe"
)

// Contract is what an API promises its clients about keys: the status and the document of each
// refusal, the field that marks a replayed answer, and defaults of some [Options].
// docs/outcomes.md has the rows of each contract with their sources, and what is not met. An
// option that is set takes precedence over the contract.
type Contract uint8

// The contracts.
const (
	// ContractCustom is the contract of this package, with the defaults that Options name. It is
	// the default.
	ContractCustom Contract = iota + 1
	// ContractIETF is draft-ietf-httpapi-idempotency-key-header. An answer of 500 and above is
	// stored under each policy.
	ContractIETF
	// ContractStripe is version 1 of Stripe's API: {"error": {…}}, 400 for another payload, the key
	// in each answer, Idempotent-Replayed. An answer of 500 and above is stored under each policy.
	ContractStripe
	// ContractACP is the Agentic Commerce Protocol: a required key, JSON compared by its meaning,
	// a flat error document, the key in each answer, Idempotent-Replayed. An answer of 500 and
	// above is never stored, so the policy has to be Reexecute.
	ContractACP
)

// String returns the name of c in the configuration of the gateway.
func (c Contract) String() string { return c.dialect().name }

// dialect returns the row of dialects for c. Zero is ContractCustom.
func (c Contract) dialect() *dialect {
	if int(c) >= len(dialects) {
		c = 0
	}
	return &dialects[max(c, ContractCustom)]
}

// withDialect returns a copy of o with what its contract says of options that are not set.
func (o *Options) withDialect() *Options {
	full, c := *o, o.Contract.dialect()
	if full.Key == 0 {
		full.Key = c.key
	}
	if full.Request.Fingerprint == 0 && !full.Key.Derived() {
		full.Request.Fingerprint = c.fingerprint
	}
	if full.Answer.After5xx == 0 {
		full.Answer.After5xx = c.after5xx
	}
	return &full
}

// validateContract reports what of o, or of the policy p, its contract does not allow. given is o
// without what the contract says.
func (o *Options) validateContract(given *Options, p *retrysafe.Policy, wrong func(format string, args ...any)) {
	c := o.Contract.dialect()
	if int(o.Contract) >= len(dialects) {
		wrong("Contract is %d; use the constants of this package", o.Contract)
	}
	switch reruns := o.Answer.After5xx == After5xxRelease && p.OnDoubt != retrysafe.Reexecute; {
	case reruns && given.Answer.After5xx == 0 && o.Key == Off: // nothing is guarded
	case reruns && given.Answer.After5xx == 0:
		wrong("Contract %s runs a request again after an answer of 500 or above, and work under Refuse starts at most once; set OnDoubt to Reexecute, or After5xx to After5xxKeep, which departs from it", c.name)
	case reruns:
		wrong("After5xx is After5xxRelease, which runs work again that may have acted; set Policy.OnDoubt to Reexecute, or use After5xxAuto")
	}
	if c == &dialects[ContractCustom] {
		return
	}
	if o.Key.Derived() || o.Key == Token {
		wrong("Contract %s is about keys that clients choose, and Key takes none of those; set Contract to %s there", c.name, ContractCustom)
	}
	if o.Answer.Keep == KeepNever {
		wrong("Contract %s answers a duplicate with the first answer, and Answer.Keep KeepNever stores none; set Contract to %s there", c.name, ContractCustom)
	}
	if o.Answer.InProgress != nil {
		wrong("Contract %s says what a duplicate gets while the first request runs; leave InProgress out, or set Contract to %s", c.name, ContractCustom)
	}
	if p.WithDefaults().Duplicate != retrysafe.Replay {
		wrong("Contract %s answers a duplicate with the first answer; leave Duplicate out, or set Contract to %s", c.name, ContractCustom)
	}
}

// echoKey sets the key of r on its answer, in the same field.
func (m *Middleware) echoKey(w http.ResponseWriter, r *http.Request) {
	lines := m.keyLines(r)
	if _, err := ParseKey(lines); err != nil {
		return // what is no key stays out of answers
	}
	w.Header()[m.keyHeader(r)] = slices.Clone(lines)
}

// ExposedHeaders returns the response headers of [ExposedHeaders] under the contract of m.
func (m *Middleware) ExposedHeaders() []string {
	names := ExposedHeaders()
	names[0] = m.dialect.replayed
	if m.dialect.echo {
		names = append(names, m.o.KeySource.Header...)
	}
	return names
}

// applyDialect sets the status and the document that a contract has for p.
func (p *Problem) applyDialect(c *dialect) {
	p.dialect = c
	r, named := c.refusals[p.Code]
	if usual, ok := retrysafe.ParseCode(p.Code); named && ok && p.Status == usual.HTTPStatus() {
		p.Status = r.status
	}
}

// document returns the body of p as its contract has it, and its media type.
func (p *Problem) document() (media string, body []byte) {
	c := p.dialect
	if c == nil || c.document == nil {
		body, _ = json.Marshal(p) // strings and numbers only: cannot fail
		return "application/problem+json", body
	}
	e := refusal{kind: c.kind(p.Status), code: strings.ReplaceAll(p.Code, "-", "_")}
	if r, ok := c.refusals[p.Code]; ok {
		e = r
	}
	message := p.Title
	if p.Detail != "" {
		message += ". " + p.Detail
	}
	body, _ = json.Marshal(c.document(e, message, p.Type)) // strings only: cannot fail
	return "application/json", body
}

// dialect is what a contract says. docs/outcomes.md has the source of each row.
type dialect struct {
	name string
	// The defaults of options; zero: those of Options.
	key         KeyMode
	fingerprint Fingerprint
	after5xx    After5xx
	// retention is the least retention that is inherited from the engine.
	retention time.Duration
	// replayed is the field that marks a replayed answer.
	replayed string
	// echo puts the key of a request into its answer.
	echo bool
	// refusals has the problems that the contract names.
	refusals map[string]refusal
	// document makes the body of a refusal; nil: a problem document.
	document func(e refusal, message, docs string) any
	// kind returns the type of a refusal that the contract does not name.
	kind func(status int) string
}

// refusal is how a contract answers with a problem.
type refusal struct {
	status     int
	kind, code string
}

// dialects has the dialect of each Contract.
var dialects = [...]dialect{
	ContractCustom: {name: "custom", replayed: headerReplayed},
	ContractIETF: {
		name: "ietf", after5xx: After5xxKeep, replayed: headerReplayed,
		refusals: map[string]refusal{
			"key-missing":      {status: http.StatusBadRequest},
			"payload-mismatch": {status: http.StatusUnprocessableEntity},
			"in-progress":      {status: http.StatusConflict},
		},
	},
	ContractStripe: {
		name: "stripe", after5xx: After5xxKeep, retention: 24 * time.Hour, replayed: "Idempotent-Replayed", echo: true,
		document: stripeDocument, kind: stripeType,
		refusals: map[string]refusal{
			"payload-mismatch":  {http.StatusBadRequest, "idempotency_error", ""},
			"in-progress":       {http.StatusConflict, "idempotency_error", "idempotency_key_in_use"},
			"too-many-requests": {http.StatusTooManyRequests, "invalid_request_error", "rate_limit"},
		},
	},
	ContractACP: {
		name: "acp", key: Required, fingerprint: FingerprintJSON, after5xx: After5xxRelease, retention: 24 * time.Hour,
		replayed: "Idempotent-Replayed", echo: true, document: acpDocument, kind: acpType,
		refusals: map[string]refusal{
			"key-missing":      {http.StatusBadRequest, "invalid_request", "idempotency_key_required"},
			"payload-mismatch": {http.StatusUnprocessableEntity, "invalid_request", "idempotency_conflict"},
			"in-progress":      {http.StatusConflict, "invalid_request", "idempotency_in_flight"},
		},
	},
}

// stripeDocument has the members of Stripe's error object that apply to a refusal.
func stripeDocument(e refusal, message, docs string) any {
	type fields struct {
		Type    string `json:"type"`
		Code    string `json:"code,omitempty"`
		Message string `json:"message"`
		DocURL  string `json:"doc_url,omitempty"`
	}
	return map[string]fields{"error": {e.kind, e.code, message, docs}}
}

func stripeType(status int) string {
	if status >= http.StatusInternalServerError {
		return "api_error"
	}
	return "invalid_request_error"
}

// acpDocument has the required members of ACP's Error, which allows no others but param.
func acpDocument(e refusal, message, _ string) any {
	return struct {
		Type    string `json:"type"`
		Code    string `json:"code"`
		Message string `json:"message"`
	}{e.kind, e.code, message}
}

func acpType(status int) string {
	switch {
	case status == http.StatusServiceUnavailable:
		return "service_unavailable"
	case status >= http.StatusInternalServerError:
		return "processing_error"
	}
	return "invalid_request"
}
