package httpidem_test

import (
	"math"
	"net/http"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/internal/assert"
)

func TestIsToken(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"X-Key", "a", "!#$%&'*+-.^_`|~09AZaz"} {
		assert.True(t, httpidem.IsToken(text), "%q is a token", text)
	}
	for _, text := range []string{"", "a b", "a:b", "ü", "a\x00", "a\x7f", "(a)", `"a"`, "a/b", "a\xff"} {
		assert.True(t, !httpidem.IsToken(text), "%q is no token", text)
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	at := now.Add(time.Minute).Format(http.TimeFormat)
	for _, c := range []struct {
		field, date string
		want        time.Duration
		ok          bool
	}{
		{"", "", 0, false},
		{"soon", "", 0, false},
		{"-1", "", 0, false},
		{"0", "", 0, true},
		{" 7 ", "", 7 * time.Second, true},
		{"99999999999999999999", "", math.MaxInt64, true},
		{at, "", time.Minute, true},
		{at, now.Add(-time.Minute).Format(http.TimeFormat), 2 * time.Minute, true},
		{now.Add(-time.Hour).Format(http.TimeFormat), "", 0, true},
	} {
		got, ok := httpidem.RetryAfter(http.Header{"Retry-After": {c.field}, "Date": {c.date}}, now)
		assert.True(t, got == c.want && ok == c.ok, "%q at %q: %v %v", c.field, c.date, got, ok)
	}
}
