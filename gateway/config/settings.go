package config

import (
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem"
)

// settings are what a route can set. It inherits a field that is left out.
type settings struct {
	Contract      contractOption   `yaml:"contract" default:"custom" doc:"what clients are promised, see [contracts](outcomes.md#contracts): custom, ietf, stripe, or acp (with on_doubt: reexecute); it sets the form of the gateway's own answers, and what key, fingerprint, after_5xx and retention are by default"`
	Key           keyMode          `yaml:"key" default:"optional" doc:"required, optional, token (one that POST /.retrysafe/tokens gave, in the header or in the form field idempotency_key), off; or made of the request: params, {params: …} or {fields: [poll], …}, see below"`
	Fingerprint   equalityOption   `yaml:"fingerprint" default:"bytes" doc:"when a request with a known key is a duplicate of the first: bytes, json (a JSON body by meaning: order of members, white space and 1.0 for 1 do not count), {fields: [$.order]} (only these members count) or {ignore: [$.sentAt, _t]} (a name is also left out of the query and of forms); the rest of other bodies byte for byte, but for the boundary of a multipart body"`
	FormKey       *bool            `yaml:"form_key" default:"false" doc:"take the key from the field idempotency_key of a form where no header has it"`
	KeyField      string           `yaml:"key_field" default:"none" doc:"take the key from this field of the body, before any header: /idempotency_key or $.meta.key is a member of a JSON body, idempotency_key a member of one or a field of a form"`
	MaxAge        maxAgeOptions    `yaml:"max_age" default:"none" doc:"refuse requests that were made too long ago by the time that they carry: {field: header:Date, max: 5m}"`
	MinKey        positiveCount    `yaml:"min_key" default:"22" doc:"least length of keys of callers without a credential"`
	Tenant        tenantOption     `yaml:"tenant" default:"credential" doc:"credential (from the Authorization header; callers without one are told apart by their cookies), {cookie: …}, {header_secret: …}, {certificate: true} or {binding: …}, see below; global (one key space for all callers), header:NAME (set by one of trusted_proxies, taken away from others), or {jwt: …}, a bearer token that is verified, see below"`
	Operation     string           `yaml:"operation" default:"method and path as sent" doc:"what keys are for; routes that share a name share keys"`
	InProgress    inProgressAnswer `yaml:"in_progress" default:"reject" doc:"how a duplicate is answered while the first request runs: reject, wait 5s, or {status: 202}, also with body, content_type and wait: for senders of events, who take 409 for a failed delivery"`
	OnDoubt       onDoubt          `yaml:"on_doubt" default:"refuse" doc:"what to do if an earlier request may have taken effect: refuse or reexecute"`
	OnDuplicate   duplicateAnswer  `yaml:"on_duplicate" default:"replay" doc:"how a duplicate of a finished request is answered: replay, reject, or {status: 200, body: done, content_type: text/plain}"`
	Outcome       outcomeOrNone    `yaml:"outcome" default:"none" doc:"where answers of 200 to 299 say in their JSON how the request ended: {field: /code, done: [0, 200], not_run: [503]}, see below; none: the status says it"`
	After5xx      after5xx         `yaml:"after_5xx" default:"auto" doc:"auto (keep under refuse, release under reexecute), keep, or release (reexecute only)"`
	NotRun        statusList       `yaml:"not_run" default:"none" doc:"further statuses that the service answers before it acts, such as [409, 503]: the key is free again, and a retry runs; see [outcomes.md](outcomes.md) for which services that is safe"`
	Lease         duration         `yaml:"lease" default:"30s" doc:"how long a request is believed to run without a sign of life"`
	MaxRun        duration         `yaml:"max_run" default:"ten leases" doc:"how long one may run at all; a route with a lease of its own gets ten of those"`
	Retention     retention        `yaml:"retention" default:"24h" doc:"how long an answer is kept, or forever"`
	MaxBody       size             `yaml:"max_body" default:"1MiB" doc:"largest request body that is guarded, or signed"`
	MaxAnswer     size             `yaml:"max_answer" default:"1MiB" doc:"largest answer that is kept, at most 1MiB"`
	TimeoutAnswer duration         `yaml:"timeout_answer" default:"60s" doc:"how long to wait for the whole answer; what a route inherits is at most its max_run"`
	CORS          corsOrNone       `yaml:"cors" default:"none" doc:"which pages of other origins may read answers, see below; none leaves that to the service"`
	Rate          rateOrNone       `yaml:"rate" default:"none" doc:"how often a caller may come, repeats too, counted in the store over all gateways: {per_s: 5, burst: 10}; more meets 429"`
	Signature     signatureOrNone  `yaml:"signature" default:"none" doc:"requests have to be signed (RFC 9421), see below; who has signed is the tenant, unless tenant says header, jwt or global"`
	Keep          keepAnswer       `yaml:"keep" default:"always" doc:"what is kept of an answer: always the answer, which duplicates get; or never, for answers that must not lie anywhere: only the status is kept, and duplicates get 409 answer-not-kept, or what on_duplicate says"`
	KeepCookies   *bool            `yaml:"keep_cookies" default:"false" doc:"keep Set-Cookie with the answer"`

	Limits tenantLimits `yaml:"limits" default:"none" doc:"what one tenant may have, over all routes and all gateways of the store, or none; more meets 429"`
}

func (s *settings) policy() retrysafe.Policy {
	return retrysafe.Policy{
		Lease: s.Lease.d, MaxRun: s.MaxRun.d, Retention: s.Retention.d, Wait: s.InProgress.wait, OnDoubt: s.OnDoubt.v,
		Duplicate: s.OnDuplicate.v, MaxAnswer: s.MaxAnswer.n, Limits: s.Limits.limits(),
	}
}

// inheritFrom returns s with each field that was left out taken from base. The fields of limits are
// inherited later, by the policy made of them.
func (s settings) inheritFrom(base *settings) settings {
	if s.Retention == (retention{}) && s.Key.v == httpidem.Params && base.Key.v != httpidem.Params {
		// these keys count for seconds, all others for a day
		s.Retention.d = httpidem.DefaultWindow
	}
	inheritField(&s.Contract, base.Contract)
	inheritField(&s.Key, base.Key)
	inheritField(&s.MaxAge, base.MaxAge)
	if !s.Key.v.Derived() && s.Key.v != httpidem.Off { // forms carry no keys there
		inheritField(&s.FormKey, base.FormKey)
		if s.Key.v != httpidem.Token {
			inheritField(&s.KeyField, base.KeyField)
		}
	}
	if !s.Key.v.Derived() {
		inheritField(&s.Fingerprint, base.Fingerprint)
	}
	inheritField(&s.MinKey, base.MinKey)
	inheritField(&s.Tenant, base.Tenant)
	inheritField(&s.Operation, base.Operation)
	inheritField(&s.InProgress, base.InProgress)
	inheritField(&s.OnDoubt, base.OnDoubt)
	inheritField(&s.Outcome, base.Outcome)
	inheritField(&s.After5xx, base.After5xx)
	if !s.NotRun.isSet {
		s.NotRun = base.NotRun
	}
	if s.MaxRun == (duration{}) && s.Lease == (duration{}) {
		// ten of the route's own leases, not of the inherited one
		s.MaxRun = base.MaxRun
	}
	if s.Key.v != httpidem.Params || base.Key.v == httpidem.Params {
		// the middleware shortens the engine's lease to fit the retention
		inheritField(&s.Lease, base.Lease)
	}
	if base.Key.v == httpidem.Params && s.Key.v != httpidem.Params && s.Retention == (retention{}) {
		s.Retention.d = 24 * time.Hour // a retention of seconds is for keys made of parameters
	}
	inheritField(&s.Retention, base.Retention)
	inheritField(&s.MaxBody, base.MaxBody)
	inheritField(&s.MaxAnswer, base.MaxAnswer)
	inheritField(&s.Keep, base.Keep)
	if s.Keep.v != httpidem.KeepNever {
		inheritField(&s.KeepCookies, base.KeepCookies)
	}
	inheritField(&s.CORS, base.CORS)
	inheritField(&s.Rate, base.Rate)
	inheritField(&s.Signature, base.Signature)
	if s.OnDuplicate.v == 0 {
		s.OnDuplicate = base.OnDuplicate
	}
	return s
}
