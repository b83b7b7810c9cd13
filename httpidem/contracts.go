package httpidem

import (
	"net/http"
	"time"
)

// profile is what a contract says. docs/contracts.md has the source of each row.
type profile struct {
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

// contracts has the profile of each Contract.
var contracts = [...]profile{
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
