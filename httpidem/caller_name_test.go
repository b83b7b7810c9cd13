package httpidem_test

import (
	"encoding/base64"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// tenantOfRequest returns the tenant and the account that the middleware gives a request with a
// field.
func tenantOfRequest(t *testing.T, e *retrysafe.Engine, c *httpidem.Credentials, name, value string) (tenant, account string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1/orders", nil)
	assert.NoError(t, err, "request")
	r.Header.Set(name, value)
	tenantOf, _ := c.TenantAndBinding(e)
	tenant, err = tenantOf(r)
	assert.NoError(t, err, "tenant")
	return tenant, c.Account(e, nil)(r)
}

// TestCallerNames: the tenants of a name are those that the middleware makes of the caller's
// requests, and no other caller's.
func TestCallerNames(t *testing.T) {
	t.Parallel()
	jwt := func(claims string) string {
		return "eyJhbGciOiJub25lIn0." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".x"
	}
	long := strings.Repeat("a", 300)
	c := &httpidem.Credentials{Cookie: "session", HeaderSecret: "X-Api-Key"}
	e := retrysafe.New(memstore.New(nil), &retrysafe.Options{Secret: []byte(strings.Repeat("s", 32))})
	other := retrysafe.New(memstore.New(nil), &retrysafe.Options{Secret: []byte(strings.Repeat("t", 32))})
	basic := "Basic " + base64.StdEncoding.EncodeToString([]byte("ann:pw"))
	for name, sent := range map[string][2]string{
		"basic:ann":                              {"Authorization", basic},
		"ann":                                    {"Authorization", basic},
		"credential:" + basic:                    {"Authorization", basic},
		"jwt:https://a.example|42":               {"Authorization", "Bearer " + jwt(`{"iss":"https://a.example","sub":"42"}`)},
		"jwt:https://a.example|7":                {"Authorization", "Bearer " + jwt(`{"iss":"https://a.example","sub":7}`)},
		"jwt:|b|c":                               {"Authorization", "Bearer " + jwt(`{"sub":"b|c"}`)},
		"bearer:" + jwt(`{"iss":"i","sub":"x"}`): {"Authorization", "bearer  " + jwt(`{"iss":"i","sub":"x"}`)},
		"credential:bearer " + jwt(`{"iss":"i","sub":"y"}`): {"Authorization", "Bearer " + jwt(`{"iss":"i","sub":"y"}`)},
		"bearer:opaque":          {"Authorization", "Bearer opaque"},
		"credential:Token abc":   {"Authorization", "token abc"},
		"cookie:a b":             {"Cookie", `session="a%20b"`},
		"secret:k-1":             {"X-Api-Key", "k-1"},
		"basic:" + long:          {"Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte(long+":pw"))},
		"credential:Digest a, b": {"Authorization", "Digest a, b "},
	} {
		n, err := httpidem.ParseCallerName(name)
		assert.NoError(t, err, "%s", name)
		tenant, account := tenantOfRequest(t, e, c, sent[0], sent[1])
		assert.True(t, slices.Contains(n.Tenants(e), tenant), "%s has the tenants %q, and its request %q", name, n.Tenants(e), tenant)
		assert.True(t, !slices.Contains(n.Tenants(other), tenant), "%s has the tenant with another secret", name)
		kind, _, _ := strings.Cut(name, ":")
		if kind != "basic" && kind != "jwt" && kind != "ann" {
			assert.True(t, slices.Contains(n.Accounts(e), account), "%s has the accounts %q, and its request %q", name, n.Accounts(e), account)
		}
		assert.True(t, !n.IsSecret() || !strings.Contains(n.String(), "opaque") && !strings.Contains(n.String(), "k-1"), "%s is shown as %s", name, n)
	}
	for _, name := range []string{"basic:bob", "basic:anna", "basic:an", "jwt:https://a.example|bob", "cookie:ann", "secret:ann", "bearer:ann", "credential:ann"} {
		n, err := httpidem.ParseCallerName(name)
		assert.NoError(t, err, "%s", name)
		tenant, _ := tenantOfRequest(t, e, c, "Authorization", basic)
		assert.True(t, !slices.Contains(n.Tenants(e), tenant), "%s has the tenant of ann", name)
	}
	header, err := httpidem.ParseCallerName("header:ann:x")
	assert.NoError(t, err, "header")
	assert.Equal(t, header.Tenants(e), []string{"ann:x"}, "a header's value is the tenant")
	for _, name := range []string{"", "basic:", "user:ann", "jwt:ann", "jwt:i|", ":x", "certificate:x", "certificate:-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"} {
		_, err := httpidem.ParseCallerName(name)
		assert.True(t, err != nil, "%q is accepted", name)
	}
}
