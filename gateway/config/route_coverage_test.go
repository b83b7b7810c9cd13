package config_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/gateway/config"
	"github.com/retrysafe/retrysafe/internal/assert"
)

// TestRouteWithoutRequests tests that a route is refused if an earlier one takes all its requests,
// and that others are not.
func TestRouteWithoutRequests(t *testing.T) {
	t.Parallel()
	for _, one := range []struct {
		first, second string
		covered       bool
	}{
		{"POST /**", "POST /orders, key: required", true},
		{"POST /orders", "POST /orders, key: required", true},
		{"POST /orders", "POST /orders/", true},
		{"POST /orders/**", "POST /orders", true},
		{"POST /*/x", "POST /orders/x", true},
		{"POST /*/x", "POST /*/x", true},
		{"POST /a/**", "POST /a/*/**", true},
		{"* /a/**", "POST /a/b", true},
		{"* /a", "* /a", true},
		{"* /a, rate: {per_s: 5, by: address}, key: \"off\"", "PUT /a", true},
		{"* /a, rate: {per_s: 5, by: address}", "* /a", true},
		{"POST /orders", "POST /**", false},
		{"POST /orders", "POST /orders/**", false},
		{"POST /orders/x", "POST /orders/*", false},
		{"POST /a/*/**", "POST /a/**", false},
		{"POST /*", "POST /a/b", false},
		{"POST /*", "POST /", false},
		{"POST /Orders", "POST /orders", false},
		{"PUT /**", "POST /orders", false},
		{"POST /a", "* /a", false},
		{"* /a", "PUT /a", false}, // PUT is not guarded unless a route names it
		{"* /a", "* /a, rate: {per_s: 5, by: address}", false},
	} {
		quoted := func(route string) string {
			match, rest, _ := strings.Cut(route, ",")
			return strings.TrimSuffix(fmt.Sprintf("{match: %q,%s", match, rest), ",") + "}"
		}
		text := "upstream: http://127.0.0.1:9\nroutes:\n  - {match: POST /other}\n  - " + quoted(one.first) + "\n  - " + quoted(one.second) + "\n"
		c, err := config.Parse([]byte(text), nil)
		assert.NoError(t, err, "%s", text)
		_, _, err = c.Options()
		assert.Equal(t, err != nil, one.covered, "%s: %v", text, err)
		if err == nil {
			continue
		}
		match, _, _ := strings.Cut(one.first, ",")
		assert.Contains(t, err.Error(), "configuration:5:6: route ", "%s", text)
		assert.Contains(t, err.Error(), fmt.Sprintf("match gets no request: route %q on line 4 comes first", match), "%s", text)
	}
}
