package config_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/gateway"
	"github.com/retrysafe/retrysafe/gateway/config"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// TestConfigOfContracts tests that routes inherit the contract, and that it sets only what the file
// leaves out.
func TestConfigOfContracts(t *testing.T) {
	t.Parallel()
	c, err := config.Parse([]byte(`
upstream: http://127.0.0.1:9
defaults: {contract: stripe, tenant: global}
routes:
  - {match: "POST /ietf", contract: ietf}
  - {match: "POST /checkout_sessions/**", contract: acp, on_doubt: reexecute}
  - {match: "POST /kept", contract: acp, after_5xx: keep, key: optional, fingerprint: bytes}
  - {match: "POST /clicks", contract: custom, key: params}
  - {match: "POST /free", contract: acp, key: "off"}
`), nil)
	assert.NoError(t, err, "parse")
	o, policy, err := c.Options()
	assert.NoError(t, err, "options")
	assert.Equal(t, o.Guard.Contract, httpidem.ContractStripe, "contract of defaults")
	for i, want := range []httpidem.Contract{httpidem.ContractIETF, httpidem.ContractACP, httpidem.ContractACP, httpidem.ContractCustom, httpidem.ContractACP} {
		assert.Equal(t, o.Routes[i].Guard.Contract, want, "contract of route %d", i)
	}
	g, err := gateway.New(retrysafe.New(memstore.New(nil), &retrysafe.Options{Policy: policy}), o)
	assert.NoError(t, err, "a gateway of it")
	defer g.Close()
	for path, want := range map[string]string{
		"/checkout_sessions": `{"type":"invalid_request","code":"idempotency_key_required"`,
		"/other":             "The service did not answer.", // stripe requires no key
		"/kept":              "The service did not answer.",
	} {
		w := httptest.NewRecorder()
		g.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, strings.NewReader("{}")))
		assert.Contains(t, w.Body.String(), want, "a POST without a key to %s", path)
	}
}

// TestConfigRefusesContracts tests that a contract is refused where its promise cannot be kept.
func TestConfigRefusesContracts(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"defaults: {contract: soap}": ":1:22: \"soap\" is unknown; write custom, ietf, stripe or acp",
		"defaults: {contract: acp}": ":1:12: contract acp runs a request again after an answer of 500 or above, and work under refuse starts at most once; " +
			"set on_doubt to reexecute, or after_5xx to keep, which departs from it",
		"defaults: {contract: acp, on_doubt: refuse}":                                            "set on_doubt to reexecute",
		"defaults: {contract: ietf, on_duplicate: reject}":                                       "contract ietf answers a duplicate with the first answer; leave on_duplicate out, or set contract to custom",
		"defaults: {contract: stripe, on_duplicate: {status: 200}}":                              "contract stripe answers a duplicate with the first answer",
		"defaults: {contract: stripe}\nroutes: [{match: \"POST /a\", key: params}]":              "contract stripe is about keys that clients choose, and key takes none of those; set contract to custom there",
		"defaults: {contract: stripe}\nroutes: [{match: \"POST /a\", key: token}]":               "set contract to custom there",
		"routes: [{match: \"POST /a\", contract: acp, on_doubt: refuse, lease: 20s}]":            "set on_doubt to reexecute",
		"defaults: {contract: stripe, after_5xx: release}":                                       "after_5xx is release, which runs work again that may have acted",
		"defaults: {contract: stripe, after_5xx: release, on_doubt: refuse, tenant: credential}": "after_5xx is release, which runs work again that may have acted",
	} {
		c, err := config.Parse([]byte(text+"\nupstream: http://127.0.0.1:9\n"), nil)
		if err == nil {
			_, _, err = c.Options()
		}
		assert.True(t, err != nil, "%s is refused", text)
		assert.Contains(t, err.Error(), want, "%s", text)
	}
}
