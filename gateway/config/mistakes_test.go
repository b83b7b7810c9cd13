package config_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/gateway/config"
	"github.com/retrysafe/retrysafe/internal/assert"
)

// TestSeveralMistakes tests that all mistakes of a file are reported, in the order of its lines,
// and none that only follows from another.
func TestSeveralMistakes(t *testing.T) {
	t.Parallel()
	_, err := config.Parse([]byte(`upstrem: http://127.0.0.1:9
limits: {headr: 1KiB, body_time: soon, streams: 9}
defaults:
  retentoin: 24h
  lease: {a: b}
  tenant: {jwt: {jwks: /dev/null, issur: x}}
routes:
  - {match: POST /a, on_doubt: maybe}
  - match: POST /b
    lease: 30s
    key: {fields: [a], onlx: 3}
    rate: 5
  - {match: POST}
`), nil)
	assert.True(t, err != nil, "mistakes")
	var places []string
	for line := range strings.Lines(err.Error()) {
		places = append(places, strings.Join(strings.SplitN(line, ":", 4)[1:3], ":"))
	}
	assert.Equal(t, places, []string{"1:1", "2:10", "2:34", "4:3", "5:10", "6:35", "8:32", "11:24", "12:11", "13:13"}, "where: %v", err)
	for _, want := range []string{`did you mean "upstream"?`, `did you mean "retention"?`, `unknown field "issur"`, `"maybe" is unknown`} {
		assert.Contains(t, err.Error(), want, "what")
	}

	_, err = config.Parse([]byte("a: 1\nb: 1\nc: 1\nd: 1\ne: 1\nf: 1\ng: 1\nh: 1\ni: 1\nj: 1\nk: 1\n"), nil)
	assert.Equal(t, len(strings.Split(fmt.Sprint(err), "\n")), 10, "at most ten: %v", err)

	_, err = config.Parse([]byte("defaults: {limits: &l {live: many}}\nroutes: [{match: POST /a, limits: *l}]\n"), nil)
	assert.Equal(t, len(strings.Split(fmt.Sprint(err), "\n")), 1, "what others refer to stays: %v", err)

	c, err := config.Parse([]byte("upstream: http://127.0.0.1:9\nroutes: [{match: POST /a, lease: 1ms}]\nhealth: {every: 3s}\nkey_header: a b\n"), nil)
	assert.NoError(t, err, "parse")
	_, _, err = c.Options()
	lines := strings.Split(fmt.Sprint(err), "\n")
	assert.True(t, len(lines) == 3 && strings.Contains(lines[0], ":2:") && strings.Contains(lines[1], ":3:") && strings.Contains(lines[2], ":4:"), "of options: %v", err)
}
