package fingerprint_test

import (
	"testing"

	"github.com/retrysafe/retrysafe/httpidem/fingerprint"
	"github.com/retrysafe/retrysafe/internal/assert"
)

const (
	jsonType = "application/json"
	formType = "application/x-www-form-urlencoded"
)

func compile(tb testing.TB, r fingerprint.Rule) *fingerprint.Compiled {
	tb.Helper()
	c, err := r.Compile()
	assert.NoError(tb, err, "Compile of %v", r)
	return c
}

func sum(tb testing.TB, c *fingerprint.Compiled, contentType, query, body string) string {
	tb.Helper()
	got, err := c.Sum(contentType, query, []byte(body))
	assert.NoError(tb, err, "Sum of %s ?%s %s", contentType, query, body)
	return string(got)
}

// same and other compare the sums of JSON bodies.
func same(tb testing.TB, r fingerprint.Rule, bodies ...string) {
	tb.Helper()
	c := compile(tb, r)
	for _, b := range bodies[1:] {
		assert.Equal(tb, sum(tb, c, jsonType, "", b), sum(tb, c, jsonType, "", bodies[0]), "%+v: sum of %s and %s", r, b, bodies[0])
	}
}

func other(tb testing.TB, r fingerprint.Rule, bodies ...string) {
	tb.Helper()
	c := compile(tb, r)
	for i, a := range bodies {
		for _, b := range bodies[:i] {
			assert.NotEqual(tb, sum(tb, c, jsonType, "", a), sum(tb, c, jsonType, "", b), "%+v: sum of %s and %s", r, a, b)
		}
	}
}
