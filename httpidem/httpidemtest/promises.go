package httpidemtest

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/internal/assert"
)

// promise is what clients see of a contract. It repeats the table of httpidem on purpose: a row
// that is changed there by mistake differs from this one.
type promise struct {
	contract httpidem.Contract
	// policy that the contract can be used with
	policy retrysafe.Policy
	// marker is the field of a replayed answer, and other one that must not be there.
	marker, other string
	echo          bool // the key is in the answer
	required      bool // a POST without a key is refused
	meaning       bool // JSON is compared by its meaning
	keeps5xx      bool // under the policy above
	keepsAlways   bool // keeps a 5xx under Reexecute too
	// retention is the least that a shorter one of the engine is raised to.
	retention time.Duration
	media     string
	read      func(t *testing.T, body string) refusal
	// missing, mismatch and busy are the refusals that the contract names; malformed and down are
	// two that it does not.
	missing, mismatch, busy, malformed, down refusal
}

// refusal is a refusal as a client reads it.
type refusal struct {
	status     int
	kind, code string
}

// promises has what clients see of each contract.
var promises = []promise{
	{
		contract: httpidem.ContractCustom, marker: "Idempotency-Replayed", other: "Idempotent-Replayed", keeps5xx: true,
		media: "application/problem+json", read: readProblem,
		missing: refusal{400, "", "key-missing"}, mismatch: refusal{422, "", "payload-mismatch"}, busy: refusal{409, "", "in-progress"},
		malformed: refusal{400, "", "key-malformed"}, down: refusal{503, "", "store-unavailable"},
	},
	{
		contract: httpidem.ContractIETF, marker: "Idempotency-Replayed", other: "Idempotent-Replayed", keeps5xx: true, keepsAlways: true,
		media: "application/problem+json", read: readProblem,
		missing: refusal{400, "", "key-missing"}, mismatch: refusal{422, "", "payload-mismatch"}, busy: refusal{409, "", "in-progress"},
		malformed: refusal{400, "", "key-malformed"}, down: refusal{503, "", "store-unavailable"},
	},
	{
		contract: httpidem.ContractStripe, marker: "Idempotent-Replayed", other: "Idempotency-Replayed", echo: true, keeps5xx: true, keepsAlways: true,
		retention: 24 * time.Hour, media: "application/json", read: readStripe,
		missing:  refusal{400, "invalid_request_error", "key_missing"},
		mismatch: refusal{400, "idempotency_error", ""}, busy: refusal{409, "idempotency_error", "idempotency_key_in_use"},
		malformed: refusal{400, "invalid_request_error", "key_malformed"}, down: refusal{503, "api_error", "store_unavailable"},
	},
	{
		contract: httpidem.ContractACP, policy: retrysafe.Policy{OnDoubt: retrysafe.Reexecute},
		marker: "Idempotent-Replayed", other: "Idempotency-Replayed", echo: true, required: true, meaning: true,
		retention: 24 * time.Hour, media: "application/json", read: readACP,
		missing:  refusal{400, "invalid_request", "idempotency_key_required"},
		mismatch: refusal{422, "invalid_request", "idempotency_conflict"}, busy: refusal{409, "invalid_request", "idempotency_in_flight"},
		malformed: refusal{400, "invalid_request", "key_malformed"}, down: refusal{503, "service_unavailable", "store_unavailable"},
	},
}

// readProblem reads a problem document.
func readProblem(t *testing.T, body string) refusal {
	t.Helper()
	var p struct {
		Type, Title, Code string
		Status            int
	}
	assert.NoError(t, json.Unmarshal([]byte(body), &p), "problem %s", body)
	assert.True(t, p.Title != "" && strings.HasSuffix(p.Type, "problems/"+p.Code+".md"), "the problem has a title, and the link of its code: %s", body)
	return refusal{p.Status, "", p.Code}
}

// readStripe reads Stripe's error object.
func readStripe(t *testing.T, body string) refusal {
	t.Helper()
	var e map[string]map[string]string
	assert.NoError(t, json.Unmarshal([]byte(body), &e), "error object %s", body)
	is := e["error"]
	assert.True(t, len(e) == 1 && is["message"] != "" && strings.Contains(is["doc_url"], "/problems/"), "one error with a message and a doc_url: %s", body)
	return refusal{kind: is["type"], code: is["code"]}
}

// readACP reads the flat Error of ACP, which allows no other members.
func readACP(t *testing.T, body string) refusal {
	t.Helper()
	var e map[string]string
	assert.NoError(t, json.Unmarshal([]byte(body), &e), "flat error %s", body)
	assert.True(t, len(e) == 3 && e["message"] != "", "type, code and message alone: %s", body)
	return refusal{kind: e["type"], code: e["code"]}
}
