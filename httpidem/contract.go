package httpidem

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/retrysafe/retrysafe"
)

// Contract is what an API promises its clients about keys: the status and the document of each
// refusal, the field that marks a replayed answer, and defaults of some [Options].
// docs/contracts.md has the rows of each contract with their sources, and what is not met. An
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
func (c Contract) String() string { return c.profile().name }

// profile returns the row of contracts for c. Zero is ContractCustom.
func (c Contract) profile() *profile {
	if int(c) >= len(contracts) {
		c = 0
	}
	return &contracts[max(c, ContractCustom)]
}

// underContract returns a copy of o with what its contract says of options that are not set.
func (o *Options) underContract() *Options {
	full, c := *o, o.Contract.profile()
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
	c := o.Contract.profile()
	if int(o.Contract) >= len(contracts) {
		wrong("Contract is %d; use the constants of this package", o.Contract)
	}
	switch reruns := o.Answer.After5xx == After5xxRelease && p.OnDoubt != retrysafe.Reexecute; {
	case reruns && given.Answer.After5xx == 0 && o.Key == Off: // nothing is guarded
	case reruns && given.Answer.After5xx == 0:
		wrong("Contract %s runs a request again after an answer of 500 or above, and work under Refuse starts at most once; set OnDoubt to Reexecute, or After5xx to After5xxKeep, which departs from it", c.name)
	case reruns:
		wrong("After5xx is After5xxRelease, which runs work again that may have acted; set Policy.OnDoubt to Reexecute, or use After5xxAuto")
	}
	if c == &contracts[ContractCustom] {
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

// echo sets the key of r on its answer, in the same field.
func (m *Middleware) echo(w http.ResponseWriter, r *http.Request) {
	lines := m.keyLines(r)
	if _, err := ParseKey(lines); err != nil {
		return // what is no key stays out of answers
	}
	w.Header()[m.headerOf(r)] = slices.Clone(lines)
}

// ExposedHeaders returns the response headers of [ExposedHeaders] under the contract of m.
func (m *Middleware) ExposedHeaders() []string {
	names := ExposedHeaders()
	names[0] = m.contract.replayed
	if m.contract.echo {
		names = append(names, m.o.KeySource.Header...)
	}
	return names
}

// under sets the status and the document that a contract has for p.
func (p *Problem) under(c *profile) {
	p.contract = c
	r, named := c.refusals[p.Code]
	if usual, ok := retrysafe.ParseCode(p.Code); named && ok && p.Status == usual.HTTPStatus() {
		p.Status = r.status
	}
}

// document returns the body of p as its contract has it, and its media type.
func (p *Problem) document() (media string, body []byte) {
	c := p.contract
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
