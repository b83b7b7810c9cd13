package config_test

import (
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/gateway/config"
	"github.com/retrysafe/retrysafe/internal/assert"
)

func TestOperatorsErrors(t *testing.T) {
	for text, want := range map[string]string{
		"operators: {tokens: /nowhere/tokens}":                                                             "configuration:2:1: operators: tokens: open /nowhere/tokens",
		"operators:\n  trusted_proxy:\n    addresses: 10.0.0.1\n    user: X-User":                          "configuration:2:1: operators: trusted_proxy: trusted_proxy needs user and groups",
		"operators:\n  trusted_proxy: {user: X-User, groups: X-Groups}":                                    "has no addresses",
		"operators:\n  trusted_proxy: {addresses: 10.0.0.1, user: U, groups: G, roles: {sre: everything}}": `there is no role "everything"`,
	} {
		_, err := parse(t, "upstream: http://127.0.0.1:9000\n"+text)
		assert.True(t, err != nil && strings.Contains(err.Error(), want), "%s: got %v, want %s", text, err, want)
	}
}

// TestOperatorsWithoutAdmin tests that no one waits for a console that no address serves.
func TestOperatorsWithoutAdmin(t *testing.T) {
	const text = "upstream: http://127.0.0.1:9000\noperators: {audit: 30h}\n"
	_, err := parse(t, text)
	assert.True(t, err != nil && strings.HasPrefix(err.Error(), "configuration:2:1: operators says who may use the console"), "without admin: %v", err)
	for _, more := range []string{"admin: 127.0.0.1:8081", "operators: {console: off}", "operators: {}"} {
		good := text + more
		if strings.HasPrefix(more, "operators") {
			good = "upstream: http://127.0.0.1:9000\n" + more
		}
		_, err := parse(t, good)
		assert.NoError(t, err, "%s", good)
	}
}

func parse(t *testing.T, text string) (*config.Config, error) {
	t.Helper()
	c, err := config.Parse([]byte(text), func(string) string { return "" })
	if err == nil {
		_, _, err = c.Options()
	}
	return c, err
}
