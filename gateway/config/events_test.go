package config_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/gateway/config"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/internal/assert"
)

// TestConfigOfEvents tests what is said of bodies and of duplicates, and what routes inherit of it.
func TestConfigOfEvents(t *testing.T) {
	t.Parallel()
	c, err := config.Parse([]byte(`
upstream: http://127.0.0.1:9000
defaults: {key_field: /idempotency_key, in_progress: {status: 202, body: taken}, outcome: {field: /code, done: [0, 200, ok, true], not_run: 503}}
routes:
  - {match: "POST /events", key: {fields: [/event_id], any_payload: true, missing: pass}, operation: events, tenant: global}
  - {match: "POST /orders", in_progress: {wait: 3s}, outcome: none, key_field: "$.meta.key"}
  - {match: "POST /tokens", key: token, in_progress: wait 5s, outcome: {field: $.ok, done: true}}
`), nil)
	assert.NoError(t, err, "parse")
	o, _, err := c.Options()
	assert.NoError(t, err, "options")
	said := func(g httpidem.Options) string {
		answer := "none"
		if a := g.Answer.InProgress; a != nil {
			answer = fmt.Sprint(a.Status, " ", a.ContentType, " ", string(a.Body))
		}
		outcome := "none"
		if g.Answer.Outcome != nil {
			outcome = fmt.Sprint(*g.Answer.Outcome)
		}
		return fmt.Sprintf("%q %v %s, %v, %s", g.KeySource.Field, g.Request.Missing, answer, g.Policy.Wait, outcome)
	}
	const inherited = "202 text/plain; charset=utf-8 taken, -1ns, {/code [0 200 ok true] [503]}"
	assert.Equal(t, said(o.Guard), `"/idempotency_key" 0 `+inherited, "defaults")
	assert.Equal(t, said(o.Routes[0].Guard), fmt.Sprintf(`"" %v `, httpidem.MissingPass)+inherited, "events")
	assert.Equal(t, said(o.Routes[1].Guard), `"$.meta.key" 0 0  , 3s, none`, "orders")
	assert.Equal(t, said(o.Routes[2].Guard), fmt.Sprintf(`"" 0 none, %v, {$.ok [true] []}`, 5*time.Second), "tokens")
}

// TestConfigOfEventsRefuses tests mistakes, each at its place and in the words of the file.
func TestConfigOfEventsRefuses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"defaults: {key_field: \"header:X-Key\"}":                                                        ":1:12: key_field: \"header:X-Key\" is no field of a body",
		"defaults: {key_field: [a]}":                                                                     ":1:",
		"defaults: {key_field: id, form_key: true}":                                                      "form_key and key_field both name a field of forms",
		"routes: [{match: \"POST /a\", key: params, key_field: /a}]":                                     "key_field reads keys that clients make, and key takes none of those",
		"defaults: {in_progress: {status: 409}}":                                                         ":1:25: status 409: a duplicate gets a success; use 200 to 299",
		"defaults: {in_progress: {statsu: 200}}":                                                         `unknown field "statsu"`,
		"defaults: {in_progress: {status: 200, wait: soon}}":                                             ":1:",
		"defaults: {in_progress: maybe}":                                                                 "write reject, or wait and a time",
		"defaults: {contract: ietf, in_progress: {status: 200}}":                                         "leave in_progress out, or set contract to custom",
		"defaults: {outcome: {field: /code}}":                                                            ":1:21: outcome: done has no value",
		"defaults: {outcome: {done: [0]}}":                                                               "is no field",
		"defaults: {outcome: {field: \"query:c\", done: [0]}}":                                           "is no member of a body",
		"defaults: {outcome: {field: /code, done: [0], not_run: [0]}}":                                   `"0" is in done and in not_run`,
		"defaults: {outcome: {field: /code, done: {a: 1}}}":                                              "a value such as 0 or done",
		"defaults: {outcome: {field: /code, dnoe: [0]}}":                                                 `unknown field "dnoe"`,
		"defaults: {outcome: /code}":                                                                     ":1:",
		"defaults: {outcome: {field: /code, done: [0]}, keep: never}":                                    "outcome is in the body of answers, and keep never stores none",
		"defaults: {key: {params: {missing: pass}}}":                                                     "any_payload and missing go with fields only",
		"routes: [{match: \"POST /a\", key: {fields: [a], missing: no}}]":                                `"no" is unknown; write refuse or pass`,
		"routes:\n  - {match: POST /a, key: {fields: [a], missing: pass}, operation: a, tenant: global}": ":2:41: route \"POST /a\": missing is pass, and any_payload is not set",
	} {
		c, err := config.Parse([]byte(text+"\nupstream: http://127.0.0.1:9\n"), nil)
		if err == nil {
			_, _, err = c.Options()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}
