package httpidemtest

import (
	"encoding/base64"
	"testing"

	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/internal/assert"
)

func basicHeader(user, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
}

// tokenHeader returns a value with the form of a token; its content is not verified.
func tokenHeader(claims, signature string) string {
	enc := base64.RawURLEncoding.EncodeToString
	return "Bearer " + enc([]byte(`{"alg":"RS256"}`)) + "." + enc([]byte(claims)) + "." + enc([]byte(signature))
}

// testTenants tests H3: the tenant is a stable principal, the credential only a binding.
func testTenants(t *testing.T, open Open) {
	for name, tt := range map[string]struct{ first, second, want string }{
		"the same credential":              {basicHeader("ann", "1"), basicHeader("ann", "1"), "replayed"},
		"another user":                     {basicHeader("ann", "1"), basicHeader("bob", "1"), "apart"},
		"the same user, another password":  {basicHeader("ann", "1"), basicHeader("ann", "2"), "principal-changed"},
		"a refreshed token":                {tokenHeader(`{"iss":"i","sub":"ann","exp":1}`, "a"), tokenHeader(`{"iss":"i","sub":"ann","exp":2}`, "b"), "principal-changed"},
		"a token of another subject":       {tokenHeader(`{"iss":"i","sub":"ann"}`, "a"), tokenHeader(`{"iss":"i","sub":"bob"}`, "a"), "apart"},
		"a token of another issuer":        {tokenHeader(`{"iss":"i","sub":"ann"}`, "a"), tokenHeader(`{"iss":"j","sub":"ann"}`, "a"), "apart"},
		"an opaque token":                  {"Bearer abc", "Bearer abc", "replayed"},
		"another opaque token":             {"Bearer abc", "Bearer abd", "apart"},
		"no credential":                    {"", "", "replayed"},
		"none, then one":                   {"", "Bearer abc", "apart"},
		"a user that looks like a token":   {basicHeader("ann", "1"), "Bearer ann", "apart"},
		"a token that is no JSON":          {tokenHeader(`no`, "a"), tokenHeader(`no`, "a"), "replayed"},
		"basic that cannot be decoded":     {"Basic ???", "Basic ???", "replayed"},
		"basic that cannot be decoded (2)": {"Basic ???", "Basic !!!", "apart"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wd := newWorld(t, open, Setup{}, nil)
			send := func(credential string) reply {
				c := call{body: "x", header: []string{"Idempotency-Key", longKey}}
				if credential != "" {
					c.header = append(c.header, "Authorization", credential)
				}
				return wd.send(c)
			}
			first, second := send(tt.first), send(tt.second)
			switch tt.want {
			case "replayed":
				wd.checkReplay(first, second)
				wd.checkStarts(1, "in all")
			case "apart":
				assert.Equal(t, second.status, 201, "status")
				assert.True(t, !second.isReplay() && second.body != first.body, "an answer of its own: %s", second.body)
				wd.checkStarts(2, "in all")
			default:
				wd.checkProblem(second, 409, tt.want, false)
				wd.checkStarts(1, "in all")
				wd.checkReplay(first, send(tt.first))
			}
		})
	}
	t.Run("callers", func(t *testing.T) { testCallers(t, open) })
	t.Run("short keys of anonymous callers", func(t *testing.T) {
		t.Parallel()
		wd := newWorld(t, open, Setup{}, nil)
		wd.checkProblem(wd.send(call{header: []string{"Idempotency-Key", "123456789012345678901"}}), 400, "key-too-short", false)
		wd.checkStarts(0, "for 21 characters")
		assert.Equal(t, wd.send(call{header: []string{"Idempotency-Key", "1234567890123456789012"}}).status, 201, "22 characters")
		loose := newWorld(t, open, Setup{Guard: httpidem.Options{KeySource: httpidem.KeySource{MinLength: 3}}}, nil)
		assert.Equal(t, loose.send(call{header: []string{"Idempotency-Key", "abc"}}).status, 201, "where shorter ones are allowed")
	})
	t.Run("operations", func(t *testing.T) {
		t.Parallel()
		wd := newWorld(t, open, Setup{}, nil)
		for i, path := range []string{"/orders", "/orders/", "/Orders", "/orders%2F", "/payments"} {
			c := keyedCall("k", "x")
			c.path = path
			assert.True(t, !wd.send(c).isReplay(), "one key on %s is another operation", path)
			wd.checkStarts(int64(i+1), "after "+path)
		}
		c := keyedCall("k", "x")
		c.method = "PATCH"
		assert.True(t, !wd.send(c).isReplay(), "one key with another method is another operation")
	})
}
