package check_test

import (
	"net/http"
	"os/exec"
	"testing"

	"github.com/retrysafe/retrysafe/check"
	"github.com/retrysafe/retrysafe/internal/assert"
)

// TestCurl lets a shell read the line, and prints the arguments that it finds.
func TestCurl(t *testing.T) {
	t.Parallel()
	for _, body := range []string{`{"a":"it's"}`, "two\nlines\\n 'and' $HOME `x` \"q\"", "\x00\x1b[31m\x7f é", "-", "@file", "a b", "latin \xe9 'é'"} {
		r := check.Request{Method: "PUT", URL: "http://h/?a=1&b=2", Body: []byte(body), Header: http.Header{"X-Empty": {""}, "Authorization": {"Bearer s3cret"}}}
		line := r.Curl()
		assert.True(t, !containsControl(line), "%q has control characters", line)
		c := exec.CommandContext(t.Context(), "bash", "-c", `curl() { printf '%s\x01' "$@"; }; AUTHORIZATION=x; `+line)
		out, err := c.Output()
		assert.NoError(t, err, "bash: %s", line)
		want := "-i\x01-X\x01PUT\x01http://h/?a=1&b=2\x01-H\x01Authorization: x\x01-H\x01X-Empty;\x01-H\x01Content-Type:\x01--data-raw\x01"
		if body[0] == 0 { // an argument cannot have it
			assert.Equal(t, string(out), want+"\x01", "arguments")
			continue
		}
		assert.Equal(t, string(out), want+body+"\x01", "arguments")
	}
}

func containsControl(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] == 0x7f {
			return true
		}
	}
	return false
}
