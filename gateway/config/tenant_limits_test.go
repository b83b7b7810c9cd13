package config_test

import (
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/gateway/config"
	"github.com/retrysafe/retrysafe/internal/assert"
)

func TestConfigOfTenantLimits(t *testing.T) {
	t.Parallel()
	c, err := config.Parse([]byte(`
upstream: http://127.0.0.1:9000
defaults: {limits: {live: 10000, new_per_s: 50, burst: 100, bytes: 64MiB}}
routes:
  - {match: "POST /a", limits: {live: 5, new_per_s: 0.5}}
  - {match: "POST /b", limits: {live: none, new_per_s: none, bytes: none}}
  - {match: "POST /c"}
`), nil)
	assert.NoError(t, err, "parse")
	o, policy, err := c.Options()
	assert.NoError(t, err, "options")
	assert.Equal(t, policy.Limits, retrysafe.Limits{Live: 10_000, PerSecond: 50, Burst: 100, Bytes: 64 << 20}, "defaults")
	for i, want := range []retrysafe.Limits{
		{Live: 5, PerSecond: 0.5, Bytes: 64 << 20},
		{Live: -1, PerSecond: -1, Bytes: -1},
		policy.Limits,
	} {
		assert.Equal(t, o.Routes[i].Guard.Policy.Or(policy).Limits, want, "route %d", i)
	}
	for text, want := range map[string]string{
		"live: 0":           "configuration:2:27: \"0\": write a number of keys such as 10000, or none",
		"live: 10k":         "configuration:2:27: \"10k\": write a number of keys",
		"live: [1]":         "write a number of keys",
		"new_per_s: -1":     "configuration:2:32: \"-1\" is no rate; write keys in a second",
		"new_per_s: .nan":   "write keys in a second",
		"new_per_s: 1e9":    "is no rate",
		"new_per_s: 50/s":   "is no rate",
		"burst: 100001":     "write a number of keys, 1 to 100000",
		"burst: none":       "write a number of keys, 1 to 100000",
		"burst: 10":         "configuration:2:21: burst is 10, and there is no new_per_s",
		"bytes: 64 parsecs": "configuration:2:28: \"64 parsecs\" is no size",
		"keys: 5":           `unknown field "keys"`,
	} {
		c, err := config.Parse([]byte("upstream: http://127.0.0.1:9\ndefaults: {limits: {"+text+"}}"), nil)
		if err == nil {
			_, _, err = c.Options()
		}
		assert.True(t, err != nil && strings.Contains(err.Error(), want), "%q: got %v, want %q", text, err, want)
	}
}

// TestConfigWithoutTenantLimits tests that limits may be none as a whole, and that an error in
// anything else has its place.
func TestConfigWithoutTenantLimits(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]retrysafe.Limits{
		"defaults: {limits: {live: 5, new_per_s: 2}}\nroutes:\n  - {match: POST /a, limits: none}":                                               {Live: -1, PerSecond: -1, Bytes: -1},
		"defaults: {limits: none}\nroutes:\n  - {match: POST /a}":                                                                                {Live: -1, PerSecond: -1, Bytes: -1},
		"defaults: {limits: none}\nroutes:\n  - {match: POST /a, limits: {live: 4}}":                                                             {Live: 4, PerSecond: -1, Bytes: -1},
		"defaults: {limits: {live: 5}}\nroutes:\n  - match: POST /a\n    limits:":                                                                {Live: 5},
		"defaults: {limits: {live: 5}}\nroutes:\n  - match: POST /a\n    limits:\n      live: 7":                                                 {Live: 7},
		"defaults: {limits: &l {live: &n 5}}\nroutes:\n  - {match: POST /b, limits: *l}\n  - {match: POST /a, limits: {<<: *l, bytes: 7B}}":      {Live: 5, Bytes: 7},
		"defaults: {limits: {live: &n 5}}\nroutes:\n  - {match: POST /b, limits: &l none}\n  - {match: POST /c, limits: *l}\n  - match: POST /a": {Live: 5},
	} {
		c, err := config.Parse([]byte("upstream: http://127.0.0.1:9\n"+text), nil)
		assert.NoError(t, err, "%s", text)
		o, policy, err := c.Options()
		assert.NoError(t, err, "%s", text)
		last := o.Routes[len(o.Routes)-1]
		assert.Equal(t, last.Guard.Policy.Or(policy).Limits, want, "%s", text)
	}
	for text, want := range map[string]string{
		"all":                 "configuration:2:20: write none, or limits such as",
		"5":                   "configuration:2:20: write none, or limits such as",
		"[none]":              "configuration:2:20: write none, or limits such as",
		"{live: 5, keys: 5}":  `configuration:2:30: unknown field "keys"`,
		"{live: 5, burst: x}": `configuration:2:37: "x": write a number of keys`,
	} {
		_, err := config.Parse([]byte("upstream: http://127.0.0.1:9\ndefaults: {limits: "+text+"}"), nil)
		assert.True(t, err != nil && strings.Contains(err.Error(), want), "%s: got %v, want %q", text, err, want)
	}
}
