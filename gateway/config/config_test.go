package config_test

import (
	"fmt"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/gateway"
	"github.com/retrysafe/retrysafe/gateway/config"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/httpidem/fingerprint"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// whole has every kind of value.
const whole = `
listen: 127.0.0.1:8080
admin: 127.0.0.1:8081
upstream: http://127.0.0.1:9000
store: sqlite:retrysafe.db
key_header: [Idempotency-Key, X-Request-Id]
defaults: {tenant: credential, lease: 30s, retention: 24h, in_progress: reject, on_doubt: refuse, after_5xx: auto, max_body: 1MiB, max_answer: 1MiB, timeout_answer: 60s}
routes:                                          # first match wins; ** = any rest; no match = guarded where a key is sent
  - {match: "POST /orders/**", key: required, in_progress: "wait 5s"}
  - {match: "POST /votes", retention: forever, on_duplicate: reject}
  - {match: "POST /notify", on_duplicate: {status: 200, body: "success"}}
  - {match: "POST /reports", on_doubt: reexecute, lease: 2s}
  - {match: "PUT /things/*", key: required, tenant: global, operation: thing, min_key: 8, keep_cookies: true, max_run: 2m}
  - {match: "* /things/**", key: required}
  - {match: "PUT /things/a/b", key: required}
  - {match: "POST /search", key: "off"}
`

func TestConfig(t *testing.T) {
	t.Parallel()
	c, err := config.Parse([]byte(whole), nil)
	assert.NoError(t, err, "parse")
	assert.Equal(t, fmt.Sprint(c.Listen, c.Admin, c.Upstream[0], c.Store), "127.0.0.1:8080127.0.0.1:8081http://127.0.0.1:9000sqlite:retrysafe.db", "addresses")
	o, policy, err := c.Options()
	assert.NoError(t, err, "options")
	assert.Equal(t, policy.Lease, 30*time.Second, "lease")
	assert.Equal(t, o.TimeoutAnswer, time.Minute, "timeout_answer")
	assert.Equal(t, o.Guard.KeySource.Header, []string{"Idempotency-Key", "X-Request-Id"}, "key_header")
	assert.Equal(t, len(o.Routes), 8, "routes")
	assert.Equal(t, o.Routes[0].Guard.Policy.Wait, 5*time.Second, "in_progress of the first route")
	assert.Equal(t, o.Routes[0].Guard.Policy.Lease, 30*time.Second, "an inherited lease")
	assert.Equal(t, o.Routes[1].Guard.Policy.Retention, retrysafe.Forever, "retention of the second")
	assert.Equal(t, o.Routes[1].Guard.Policy.Duplicate, retrysafe.Reject, "on_duplicate of the second")
	assert.Equal(t, string(o.Routes[2].Guard.Answer.Succeed.Body), "success", "body of the third")
	assert.Equal(t, o.Routes[3].Guard.Policy.OnDoubt, retrysafe.Reexecute, "on_doubt of the fourth")
	assert.Equal(t, o.Routes[3].Guard.Policy.Lease, 2*time.Second, "its lease")
	assert.Equal(t, o.Routes[4].Guard.Policy.MaxRun, 2*time.Minute, "max_run of the fifth")
	assert.True(t, o.Routes[4].Guard.Answer.KeepCookies && o.Routes[4].Guard.KeySource.MinLength == 8, "the rest of the fifth")
}

// TestConfigOfMadeKeys tests where keys come from, and what such routes inherit.
func TestConfigOfMadeKeys(t *testing.T) {
	t.Parallel()
	c, err := config.Parse([]byte(`
upstream: http://127.0.0.1:9000
trusted_proxies: 127.0.0.1
defaults: {lease: 30s, retention: 24h, key: required, form_key: true, max_age: {field: "header:Date", max: 5m}}
routes:
  - {match: "POST /orders", key: params}
  - {match: "POST /slow", key: {params: {ignore: [note], ignore_times: false}}, retention: 1h}
  - {match: "POST /taxi", key: {params: {ignore_positions: true, only: [$.to, lat]}}}
  - {match: "POST /votes", key: {fields: [poll, "query:round"], ignore: [comment], any_payload: true}, operation: vote, retention: forever, tenant: "header:X-User"}
  - {match: "POST /tokens", key: token, signature: none, cors: none, rate: none, form_key: false}
  - {match: "POST /forms", max_age: {field: "header:X-Sent", max: 10s}}
`), nil)
	assert.NoError(t, err, "parse")
	o, _, err := c.Options()
	assert.NoError(t, err, "options")
	g := func(i int) httpidem.Options { return o.Routes[i].Guard }
	assert.Equal(t, fmt.Sprintln(g(0).Key, g(0).Policy.Retention, g(0).Policy.Lease, g(0).KeySource.Form), fmt.Sprintln(httpidem.Params, "10s", "0s", false), "params")
	assert.True(t, slices.Contains(g(0).Request.Rule.Ignore, "timestamp") && !slices.Contains(g(0).Request.Rule.Ignore, "lat"), "what params leave out: %v", g(0).Request.Rule.Ignore)
	assert.Equal(t, g(1).Request.Rule.Ignore, []string{"note"}, "without times")
	assert.Equal(t, g(1).Policy.Retention, time.Hour, "a retention of its own")
	assert.True(t, slices.Contains(g(2).Request.Rule.Ignore, "lng") && !slices.Contains(g(2).Request.Rule.Ignore, "lat"), "a name that is asked for is kept")
	assert.Equal(t, fmt.Sprintln(g(3).Key, g(3).Request.Fields, g(3).Policy.Retention == retrysafe.Forever, g(3).Policy.Lease), fmt.Sprintln(httpidem.Fields, "[poll query:round]", true, "30s"), "fields")
	assert.True(t, slices.Contains(g(3).Request.Rule.Ignore, "comment") && g(3).Request.AnyPayload, "what a repeat may change")
	assert.Equal(t, fmt.Sprintln(g(5).Key, g(5).KeySource.Form, g(5).Limit.Age.Field, g(5).Limit.Age.Max, g(3).Limit.Age.Field, g(3).Limit.Age.Max), fmt.Sprintln(httpidem.Required, true, "header:X-Sent", "10s", "header:Date", "5m0s"), "forms and ages")
	_, err = gateway.New(retrysafe.New(memstore.New(nil), &retrysafe.Options{Policy: retrysafe.Policy{Lease: 30 * time.Second, Retention: 24 * time.Hour}}), o)
	assert.NoError(t, err, "a gateway of it")
}

// TestConfigOfFingerprints tests which requests with one key are repeats of each other.
func TestConfigOfFingerprints(t *testing.T) {
	t.Parallel()
	c, err := config.Parse([]byte(`
upstream: http://127.0.0.1:9000
trusted_proxies: 127.0.0.1
defaults: {fingerprint: json}
routes:
  - {match: "POST /orders"}
  - {match: "POST /raw", fingerprint: bytes}
  - {match: "POST /times", fingerprint: {ignore: [$.sentAt, nonce], numbers_as_written: true}}
  - {match: "POST /parts", fingerprint: {fields: [$.order]}}
  - {match: "POST /clicks", key: params}
`), nil)
	assert.NoError(t, err, "parse")
	o, _, err := c.Options()
	assert.NoError(t, err, "options")
	for i, want := range []httpidem.Options{
		{Request: httpidem.RequestOptions{Fingerprint: httpidem.FingerprintJSON}},
		{Request: httpidem.RequestOptions{Fingerprint: httpidem.FingerprintBytes}},
		{Request: httpidem.RequestOptions{Fingerprint: httpidem.FingerprintJSON, Rule: fingerprint.Rule{Ignore: []string{"$.sentAt", "nonce"}, NumbersAsWritten: true}}},
		{Request: httpidem.RequestOptions{Fingerprint: httpidem.FingerprintJSON, Rule: fingerprint.Rule{Only: []string{"$.order"}}}},
	} {
		got := o.Routes[i].Guard
		assert.Equal(t, fmt.Sprint(got.Request.Fingerprint, got.Request.Rule), fmt.Sprint(want.Request.Fingerprint, want.Request.Rule), "route %d", i)
	}
	assert.Equal(t, o.Routes[4].Guard.Request.Fingerprint, httpidem.Fingerprint(0), "keys that are derived")
}

// TestConfigOfNotRun tests which statuses the routes release a key by.
func TestConfigOfNotRun(t *testing.T) {
	t.Parallel()
	c, err := config.Parse([]byte(`
upstream: http://127.0.0.1:9000
defaults: {not_run: [409, 503]}
routes:
  - {match: "POST /orders"}
  - {match: "POST /seats", not_run: 423}
  - {match: "POST /payments", not_run: none}
  - {match: "POST /refunds", not_run: []}
  - {match: "POST /reports", on_doubt: reexecute, not_run: [502]}
`), nil)
	assert.NoError(t, err, "parse")
	o, _, err := c.Options()
	assert.NoError(t, err, "options")
	var all []string
	for _, r := range o.Routes {
		all = append(all, fmt.Sprint(r.Match, r.Guard.Answer.NotRun))
	}
	assert.Equal(t, fmt.Sprint(o.Guard.Answer.NotRun, all), "[409 503] [POST /orders[409 503] POST /seats[423] POST /payments[] POST /refunds[] POST /reports[502]]", "statuses")
}

// TestConfigOfOperation tests the options of the server, and who may set which field.
func TestConfigOfOperation(t *testing.T) {
	t.Parallel()
	c, err := config.Parse([]byte(`
upstream: [http://127.0.0.1:9000, "http://127.0.0.1:9001"]
trusted_proxies: [127.0.0.1, "10.1.2.3/8", "::1"]
health: {path: /healthz, every: 1s}
access_log: stdout
drain: 20s
keep_host: true
limits: {header: 16KiB, header_time: 3s, body_time: 30s, idle_time: 1m, streams: 50}
defaults: {tenant: "header:x-user"}
routes:
  - {match: "POST /a", tenant: credential}
  - {match: "POST /b", tenant: "header:X-Account"}
`), nil)
	assert.NoError(t, err, "parse")
	o, _, err := c.Options()
	assert.NoError(t, err, "options")
	assert.Equal(t, o.Upstreams, []string{"http://127.0.0.1:9000", "http://127.0.0.1:9001"}, "upstreams")
	assert.Equal(t, fmt.Sprint(o.TrustedProxies), "[127.0.0.1/32 10.0.0.0/8 ::1/128]", "trusted")
	assert.Equal(t, o.TrustedHeaders, []string{"X-User", "X-Account"}, "fields of trusted proxies")
	assert.True(t, o.KeepHost, "keep_host")
	assert.Equal(t, o.Health, gateway.Health{Path: "/healthz", Every: time.Second}, "health")
	assert.Equal(t, o.Guard.Limit.BodyTime, 30*time.Second, "body_time")
	assert.Equal(t, *c.ServerOptions(), gateway.ServerOptions{Header: 16 << 10, HeaderTime: 3 * time.Second, IdleTime: time.Minute, Streams: 50}, "limits")
	assert.Equal(t, fmt.Sprint(c.DrainTime(), c.AccessLog), "20sstdout", "drain and access_log")
	r := httptest.NewRequest("POST", "/", nil)
	_, err = o.Guard.Tenant(r)
	assert.True(t, err != nil, "no user")
	r.Header["X-User"] = []string{"ann"}
	who, err := o.Guard.Tenant(r)
	assert.Equal(t, fmt.Sprint(who, err), "ann<nil>", "the user")
	r.Header["X-User"] = []string{"ann", "bob"}
	_, err = o.Guard.Tenant(r)
	assert.True(t, err != nil, "two users")
}

func TestConfigOfCopies(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{"": config.DefaultCopies, "copies: 1MiB": 1 << 20, "copies: off": 0} {
		c, err := config.Parse([]byte("upstream: http://127.0.0.1:9000\n"+text), nil)
		assert.NoError(t, err, "%q", text)
		assert.Equal(t, c.Copies(), want, "%q", text)
	}
}

func TestConfigMayBeShort(t *testing.T) {
	t.Parallel()
	env := map[string]string{"RETRYSAFE_UPSTREAM": "http://127.0.0.1:9", "RETRYSAFE_STORE": "memory:"}
	for _, text := range []string{"", "# nothing\n", "upstream: http://elsewhere\n"} {
		c, err := config.Parse([]byte(text), func(name string) string { return env[name] })
		assert.NoError(t, err, "%q", text)
		assert.Equal(t, c.Upstream[0]+c.Store+c.Listen, "http://127.0.0.1:9memory:127.0.0.1:8080", "%q: the environment stands above the file", text)
		_, policy, err := c.Options()
		assert.NoError(t, err, "%q: options", text)
		assert.Equal(t, policy.OnDoubt, retrysafe.OnDoubt(0), "%q: what is not said is the engine's default", text)
	}
}

// TestConfigTimes tests the forms of times.
func TestConfigTimes(t *testing.T) {
	t.Parallel()
	c, err := config.Parse([]byte("drain: 2d\noperators: {audit: 1000d}\ndefaults: {retention: 7d, in_progress: wait 1d, max_run: 1h30m}\nroutes: [{match: POST /a, retention: forever}]\n"), nil)
	assert.NoError(t, err, "parse")
	const day = 24 * time.Hour
	_, audit, err := c.AdminOptions()
	assert.NoError(t, err, "operators")
	o, policy, _ := c.Options()
	assert.Equal(t, []time.Duration{c.DrainTime(), audit, policy.Retention, policy.Wait, policy.MaxRun, o.Routes[0].Guard.Policy.Retention},
		[]time.Duration{2 * day, 1000 * day, 7 * day, day, 90 * time.Minute, retrysafe.Forever}, "times")
}

// TestConfigErrors tests that each error says where it is and what would be right.
func TestConfigErrors(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"fast_path: on":                                           `:1:1: fast_path is no option any more: net/http serves all requests now; delete the line`,
		"upstrem: http://x":                                       `:1:1: unknown field "upstrem"`,
		"listen: a\nlisten: b":                                    ":2:1:",
		"listen: [1":                                              ":2:1:",
		"- a":                                                     ":2:1:",
		"routes: 3":                                               ":1:9:",
		"defaults:\n  lease: soon":                                `:2:10: "soon" is no time; write a time such as 500ms, 30s, 24h or 7d`,
		"defaults: {retention: soon}":                             `:1:23: "soon" is no time; write a time such as 30s, 24h or 7d, or forever`,
		"defaults: {lease: forever}":                              `:1:19: "forever" is no time; write a time such as 500ms, 30s, 24h or 7d`,
		"defaults: {lease: 0s}":                                   `:1:19: "0s" is not more than zero; write a time such as`,
		"drain: 1.5d":                                             `"1.5d" is no time`,
		"drain: 999999999999d":                                    `"999999999999d" is no time`,
		"drain: -1d":                                              `"-1d" is not more than zero`,
		"defaults: {lease: -3s}":                                  ":1:19:",
		"defaults: {lease: [3s]}":                                 ":1:19: write a time",
		"defaults: {max_body: lots}":                              `"lots" is no size; write a size such as 64KiB or 1MiB`,
		"defaults: {max_body: 99999999999GiB}":                    "is no size",
		"defaults: {min_key: none}":                               `"none" is no number above zero`,
		"defaults: {on_doubt: maybe}":                             `"maybe" is unknown; write refuse or reexecute`,
		"defaults: {in_progress: wait}":                           `write reject, or wait and a time`,
		"defaults: {on_duplicate: {status: 500}}":                 "use 200 to 299",
		"defaults: {on_duplicate: {statsu: 200}}":                 `unknown field "statsu"`,
		"defaults: {on_duplicate: {status: many}}":                ":1:",
		"defaults: {tenant: nobody}":                              "write credential, global, header:NAME, {cookie:...} or",
		"defaults: {tenant: \"header:\"}":                         "names no header",
		"defaults: {tenant: \"header:X User\"}":                   "names no header",
		"defaults: {tenant: jwt}":                                 "write credential, global, header:NAME, {cookie:...} or",
		"defaults: {tenant: {jwt: {issuer: x}}}":                  ":1:20: jwt needs jwks and issuer",
		"defaults: {tenant: {jwt: {jwks: none.json, issuer: x}}}": "jwks: open none.json",
		"defaults: {tenant: {jwt: {jwks: \"http://keys.example\", issuer: x}}}":                                        "has to be https",
		"defaults: {tenant: {cookie: sid}}":                                                                            ":1:20: a cookie names callers only if it stays the same",
		"defaults: {tenant: {stable: true}}":                                                                           "a cookie names callers only if it stays the same",
		"defaults: {tenant: {cookie: \"a b\", stable: true}}":                                                          "cookie is \"a b\", which is no name",
		"defaults: {tenant: {header_secret: Authorization}}":                                                           "Authorization counts by itself",
		"defaults: {tenant: {binding: [session]}}":                                                                     "write it like \"cookie:session\"",
		"defaults: {tenant: {jwt: {jwks: /dev/null, issuer: x}, cookie: a}}":                                           "leave the others out",
		"defaults: {tenant: {certificate: true}}":                                                                      "needs the certificates of clients",
		"trusted_proxies: [10.0.0.0/8]\ntls: {cert: a, key: b, client_ca: c}\ndefaults: {tenant: {certificate: true}}": "named by the proxy's certificate",
		"tls: {client_ca: a.pem}":                                                                                      "tls needs both",
		"defaults: {tenant: {}}":                                                                                       "{header_secret: X-Api-Key}",
		"defaults: {tenant: {sub: x}}":                                                                                 "unknown field",
		"defaults: {cors: {origins: shop.example}}":                                                                    "is no origin",
		"defaults: {cors: {origins: \"https://shop.example/\"}}":                                                       "without a path",
		"defaults: {cors: {origins: \"*\", credentials: true}}":                                                        "stands alone",
		"defaults: {cors: {origins: \"*\", expose: [\"a b\"]}}":                                                        "no header name",
		"defaults: {cors: {}}":                                                                                         "names no origin",
		"defaults: {cors: all}":                                                                                        ":1:",
		"defaults: {rate: {burst: 3}}":                                                                                 ":1:18: per_s is 0",
		"defaults: {rate: {per_s: 3, by: name}}":                                                                       "tenant or address",
		"defaults: {signature: {authorities: a}}":                                                                      "keys names no file",
		"defaults: {signature: {keys: none.keys}}":                                                                     "open none.keys",
		"defaults: {signature: yes}":                                                                                   ":1:",
		"defaults: {signature: {keys: /dev/null, scheme: ftp}}":                                                        "http or https",
		"defaults: {key: {params: {any_payload: true}}}":                                                               "any_payload and missing go with fields only",
		"defaults: {key: {params: {}, ignore: [a]}}":                                                                   "inside of it",
		"defaults: {rate: {per_s: 5}}":                                                                                 "count by address",
		"routes: [{match: \"POST /a\", key: {fields: [a]}, operation: a}]":                                             "is another caller",
		"defaults: {key: token}\nroutes: [{match: \"POST /a\", key: token, signature: {keys: /dev/null}}]":             "leave tenant and signature out",
		"routes: [{match: \"POST /a\", operation: pay}, {match: \"POST /b\", operation: pay, fingerprint: json}]":      `route "POST /b": fingerprint differs from that of route "POST /a"`,
		"defaults: {fingerprint: xml}":                                                                                 ":1:25: \"xml\" is unknown; write bytes, json, {fields:...} or {ignore:...}",
		"defaults: {fingerprint: {}}":                                                                                  "write which members",
		"defaults: {fingerprint: {ignore: [$.]}}":                                                                      "cannot be read",
		"defaults: {fingerprint: {only: [a]}}":                                                                         `unknown field "only"`,
		"routes: [{match: \"POST /a\", key: params, fingerprint: json}]":                                               "fingerprint is for keys that clients send",
		"defaults: {rate: 5}":                                                                                          ":1:",
		"defaults: {tenant: header:X-User}":                                                                            ":1:12: a tenant by a header (header:NAME) needs servers that may set it: give their addresses in trusted",
		"trusted_proxies: [10.0.0.0/8, nowhere]":                                                                       `:1:18: "nowhere" is no address`,
		"tls: {cert: a.pem}":                                                                                           "tls needs both",
		"tls: {cert: none.pem, key: none.pem}":                                                                         "configuration:1:1: tls: open none.pem",
		"upstream_ca: none.pem":                                                                                        "configuration:1:1: upstream_ca: open none.pem",
		"upstream_ca: config_test.go":                                                                                  "has no certificate in PEM",
		"health: {every: 3s}":                                                                                          "health has no path",
		"health: {path: healthz}":                                                                                      "begins with a slash",
		"health: {path: /x, evry: 3s}":                                                                                 `unknown field "evry"`,
		"copies: many":                                                                                                 "copies take a size such as 16MiB, or off",
		"limits: {header: none}":                                                                                       "is no size",
		"upstream: [http://a, ftp://b]":                                                                                "http:// or https://",
		"upstream: []":                                                                                                 "no upstream is given",
		"defaults: {not_run: conflict}":                                                                                `:1:21: "conflict" is no status; write one such as 409, a list such as [409, 503], or none`,
		"defaults: {not_run: [409, 1000]}":                                                                             `"1000" is no status`,
		"defaults: {not_run: [409, {a: b}]}":                                                                           `write a status such as 409`,
		"defaults: {not_run: [409, 200]}":                                                                              ":1:12: not_run has 200; use statuses of 300 to 599 that the service answers before it acts",
		"routes:\n  - {match: POST /a, not_run: [503, 504]}":                                                           `:2:22: route "POST /a": not_run has 504, which also comes after a request has taken effect; leave it out, or set on_doubt to reexecute`,
		"defaults: {after_5xx: maybe}":                                                                                 "write auto, keep or release",
		"routes: [{match: \"POST /a\", key: {fields: [a]}}]":                                                           "many spellings",
		"routes: [{match: \"POST /a\", key: {fields: [a], only: [b]}}]":                                                "many spellings",
		"routes: [{match: \"POST /a\", key: {fields: []}}]":                                                            "write what the key is made of",
		"routes: [{match: \"POST /a\", key: {params: {}, fields: [a]}}]":                                               "write what the key is made of",
		"routes: [{match: \"POST /a\", key: {field: [a]}}]":                                                            "unknown field",
		"routes: [{match: \"POST /a\", key: {params: {ignore: [$.]}}}]":                                                "cannot be read",
		"routes: [{match: \"POST /a\", max_age: {field: ts}}]":                                                         "5s or more",
		"routes: [{match: \"POST /a\", max_age: {max: 5s}}]":                                                           "no field",
		"routes: [{match: \"POST /a\", key: params, form_key: true}]":                                                  "form_key reads keys that forms bring, and key takes none",
		"tokens: {rate: 0}":                                                                                            "above zero",
		"tokens: {life: 1ms}":                                                                                          "use 1s to 720h",
		"tokens: {lives: 9}":                                                                                           `unknown field "lives"`,
		"routes:\n  - {match: POST /a, key: token, tenant: global}":                                                    ":2:22: key: token needs the tenant and the signature of defaults",
		"routes: [{match: \"POST /a\", key: {params: [a]}}]":                                                           ":1:43: sequence was used where mapping is expected",
		"routes: [{match: \"POST orders\"}]":                                                                           "write it like POST /orders/**",
		"routes: [{match: \"post /orders\"}]":                                                                          "write it in capitals",
		"routes: [{match: \"POST /a/**/b\"}]":                                                                          "** only at the end",
		"routes: [{match: \"POST /a*\"}]":                                                                              "a whole segment",
		"routes: [{key: required}]":                                                                                    "entry 1 of routes has no match",
		"routes: [{match: \"POST /a%20b\"}]":                                                                           "the path decoded",
		"defaults: {timeout_answer: 10m}":                                                                              "is longer than a request may run (max_run",
		"listen: a\n---\nlisten: b":                                                                                    "more than one document",
		"routes:\n  - {match: GET /a, key: required}":                                                                  ":2:6: route \"GET /a\": match has GET",
		"routes:\n\n  - {match: POST /a, after_5xx: release}":                                                          ":3:22: route \"POST /a\": after_5xx is release",
		"routes:\n  - {match: POST /a, lease: 2s, timeout_answer: 60s}":                                                "is longer than a request may run (max_run",
		"defaults: {after_5xx: release}":                                                                               "configuration:1:12: after_5xx is release, which runs work again that may have acted; set on_doubt to reexecute",
		"defaults: {lease: 1ms}":                                                                                       ":1:12: lease is 1ms",
		"key_header: [a b]":                                                                                            "no header name",
		"upstream: ftp://x":                                                                                            "http:// or https://",
		"allow_eviction: maybe":                                                                                        `:1:17: this is a text; write true or false`,
		"defaults: {form_key: maybe}":                                                                                  `:1:22: this is a text; write true or false`,
		"upstream: http://127.0.0.1:9\nroutes:\n  - {match: POST /Key/Lease, lease: 1ms}":                              `route "POST /Key/Lease": lease is 1ms`,
		"key_header: X-Key Lease":                                                                                      `key_header has "X-Key Lease"`,
		"defaults: {key: requirde}":                                                                                    `"requirde" is unknown; write required, optional, token, params, off, {params:...} or {fields:...}; did you mean "required"?`,
		"defaults: {retentoin: 1h}":                                                                                    `configuration:1:12: unknown field "retentoin"; did you mean "retention"?`,
		"retention: 1h":                                                                                                `unknown field "retention"; it belongs in another part of the file`,
		"xyzzy: 1":                                                                                                     `unknown field "xyzzy"`,
		"defaults:\n  max_run: 5s\n  lease: 30s":                                                                       "configuration:2:3: max_run (5s) is shorter than lease (30s)",
		"upstream: http://127.0.0.1:9\nroutes:\n  - match: POST /a\n    lease: 1ms\n":                                  "configuration:4:5: route \"POST /a\": lease is 1ms",
		"routes:\n  - {match: POST /a}\n  - {match: POST /b, retention: 1s, lease: 30s}\nupstream: http://127.0.0.1:9\n": "configuration:3:22: route \"POST /b\": retention (1s) is shorter than lease (30s)",
		"limits:\n  body_time: 5s\nkey_header: 'a b'\nupstream: http://127.0.0.1:9":                                      "configuration:3:1: key_header has",
	} {
		if !strings.Contains(text, "upstream") {
			text += "\nupstream: http://127.0.0.1:9\n"
		}
		c, err := config.Parse([]byte(text), nil)
		if err == nil {
			_, _, err = c.Options()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
	_, err := config.Load("no/such/file.yaml")
	assert.True(t, err != nil && strings.Contains(err.Error(), "no/such/file.yaml"), "a file that is not there: %v", err)
}

// TestConfigErrorsOnce tests that an error in the defaults is not repeated for each route that
// inherits it.
func TestConfigErrorsOnce(t *testing.T) {
	t.Parallel()
	c, err := config.Parse([]byte("upstream: http://127.0.0.1:9\ndefaults: {lease: 1ms}\nroutes:\n  - {match: POST /a}\n  - {match: POST /b, retention: 1us}\n"), nil)
	assert.NoError(t, err, "parse")
	_, _, err = c.Options()
	assert.True(t, err != nil, "a lease that is too short")
	assert.Equal(t, strings.Count(err.Error(), "lease is 1ms"), 1, "how often it is said: %v", err)
	assert.Contains(t, err.Error(), `configuration:5:22: route "POST /b": retention`, "what is wrong with a route alone")
}

// TestReference tests that docs/gateway.md lists every option; UPDATE=1 writes the list again.
func TestReference(t *testing.T) {
	t.Parallel()
	const page = "../../docs/gateway.md"
	text, err := os.ReadFile(page)
	assert.NoError(t, err, "page")
	const begin, end = "<!-- options: made from the code by UPDATE=1 go test -run TestReference ./gateway/config -->\n", "<!-- end of options -->\n"
	before, rest, ok := strings.Cut(string(text), begin)
	_, after, ok2 := strings.Cut(rest, end)
	assert.True(t, ok && ok2, "the page has both marks")
	want := before + begin + config.Reference() + end + after
	if os.Getenv("UPDATE") != "" {
		assert.NoError(t, os.WriteFile(page, []byte(want), 0o600), "write")
		return
	}
	assert.Equal(t, string(text) == want, true, "docs/gateway.md has the options of the code; UPDATE=1 go test -run TestReference ./gateway/config writes them")
	for _, name := range []string{"listen", "defaults", "routes", "match", "timeout_answer", "keep_cookies"} {
		assert.Contains(t, config.Reference(), "`"+name+"`", "reference")
	}
}

// TestWords: files of operators have these options.
func TestWords(t *testing.T) {
	t.Parallel()
	words, section := []string{}, ""
	for line := range strings.Lines(config.Reference()) {
		line = strings.TrimSpace(line)
		switch name := strings.Split(line, "`"); {
		case strings.HasPrefix(line, "### "):
			section = strings.TrimPrefix(line, "### ")
		case strings.HasPrefix(line, "| `"):
			words = append(words, section+": "+name[1])
		case strings.HasPrefix(line, "- `"):
			words = append(words, "environment: "+name[1])
		}
	}
	assert.Words(t, "testdata/words.golden", words)
}

func FuzzParseConfig(f *testing.F) {
	f.Add([]byte(whole))
	f.Add([]byte("upstream: http://x\nroutes:\n - match: '* /**'\n   key: {fields: [a]}"))
	f.Add([]byte("upstream: http://x\ndefaults: {limits: {live: 5, new_per_s: 0.5, burst: 2, bytes: 1MiB}}\nroutes:\n - {match: POST /a, limits: {new_per_s: none, burst: 3}}"))
	f.Add([]byte("defaults: {limits: &l }\nroutes:\n - {match: POST /a, limits: *l}\n - {match: POST /b, limits: none}"))
	f.Add([]byte("defaults: {on_duplicate: {status: 299, body: x}, max_body: 1GB}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := config.Parse(text, nil)
		if err != nil {
			return
		}
		o, policy, err := c.Options()
		if err != nil {
			return
		}
		e := retrysafe.New(memstore.New(nil), &retrysafe.Options{Policy: policy, Sweep: -1})
		g, err := gateway.New(e, o)
		if err != nil {
			t.Fatalf("what Options accepts, New refuses: %v", err)
		}
		_ = g.Close()
	})
}
