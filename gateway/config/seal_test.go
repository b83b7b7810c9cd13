package config_test

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/gateway/config"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/internal/assert"
)

// sealKeys is a key file with one key.
var sealKeys = `{"current": "a", "keys": [{"id": "a", "key": "` + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32))) + `"}]}`

// TestSeal: the key file is read, or the environment has its text.
func TestSeal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	keys := filepath.Join(dir, "seal.json")
	assert.NoError(t, os.WriteFile(keys, []byte(sealKeys), 0o600), "write")
	env := func(name string) string { return map[string]string{"RETRYSAFE_SEAL_KEYS": sealKeys}[name] }
	parse := func(text string, env func(string) string) *config.Config {
		t.Helper()
		c, err := config.Parse([]byte("upstream: http://a\n"+text), env)
		assert.NoError(t, err, "parse %s", text)
		_, _, err = c.Options()
		assert.NoError(t, err, "options of %s", text)
		return c
	}
	none := parse("", nil)
	ring, err := none.SealRing()
	assert.True(t, ring == nil && err == nil, "no seal: %v", err)
	for _, c := range []*config.Config{
		parse(fmt.Sprintf("seal: {keys: %s}", keys), nil), parse("", env), parse("seal: {cache: 1m}", env), parse("seal: {keys: none.json}", env),
	} {
		ring, err := c.SealRing()
		assert.True(t, err == nil && ring.Current() == "a", "the keys: %v", err)
		assert.True(t, !none.SameSeal(c), "not the same as none")
	}
	c := parse(fmt.Sprintf("seal: {keys: %s, data_keys: %s/data, cache: 1m, only_sealed: true}", keys, dir), nil)
	o, err := c.SealOptions()
	assert.NoError(t, err, "options")
	assert.True(t, o.OnlySealed && o.CacheLife == time.Minute && o.Keys != nil, "options: %+v", o)
	assert.True(t, c.SameSeal(c) && !c.SameSeal(parse("", env)), "the same")
	o, err = parse("", env).SealOptions()
	assert.True(t, err == nil && !o.OnlySealed && o.Keys == nil, "options: %+v", o)
	_, err = parse(fmt.Sprintf("seal: {keys: %s, data_keys: %s}", keys, keys), nil).SealOptions()
	assert.True(t, err != nil && strings.Contains(err.Error(), "data_keys"), "a directory that is none: %v", err)
}

// TestSealErrors: mistakes are named with their place, and without a key.
func TestSealErrors(t *testing.T) {
	t.Parallel()
	half := filepath.Join(t.TempDir(), "half.json")
	assert.NoError(t, os.WriteFile(half, []byte(sealKeys[:60]), 0o600), "write")
	for text, want := range map[string]string{
		"seal:\n  cache: 1m\n  keys: none.json":                       "configuration:4:9: sealstore: open none.json",
		"seal:\n  keys: " + half:                                      "configuration:3:9: " + half + ": sealstore: the key file ends in the middle",
		"seal:\n  cache: 1m":                                          "configuration:2:1: seal has no keys",
		"seal: {key: a}":                                              `configuration:2:8: unknown field "key"`,
		"seal: {keys: [a]}":                                           "configuration:2:14: write the path of a file",
		"seal: {keys: a, only_sealed: maybe}":                         "configuration:2:",
		"seal: {keys: a, cache: 0s}":                                  `configuration:2:24: "0s" is not more than zero`,
		"defaults: {keep: sometimes}":                                 `configuration:2:18: "sometimes" is unknown; write always or never`,
		"defaults: {keep: never, contract: stripe}":                   "stores none",
		"routes: [{match: POST /a, keep: never, keep_cookies: true}]": "keep_cookies",
	} {
		c, err := config.Parse([]byte("upstream: http://a\n"+text), nil)
		if err == nil {
			_, _, err = c.Options()
		}
		assert.True(t, err != nil, "%s: accepted", text)
		assert.Contains(t, err.Error(), want, "%s", text)
	}
}

// TestKeep: a route inherits keep, and can be the one that keeps answers.
func TestKeep(t *testing.T) {
	t.Parallel()
	c, err := config.Parse([]byte(`
upstream: http://a
defaults: {keep: never}
routes:
  - {match: POST /cards}
  - {match: POST /orders, keep: always, keep_cookies: true}
`), nil)
	assert.NoError(t, err, "parse")
	o, _, err := c.Options()
	assert.NoError(t, err, "options")
	assert.Equal(t, o.Guard.Answer.Keep, httpidem.KeepNever, "defaults")
	assert.Equal(t, o.Routes[0].Guard.Answer.Keep, httpidem.KeepNever, "inherited")
	assert.Equal(t, o.Routes[1].Guard.Answer.Keep, httpidem.KeepAlways, "of its own")
}
