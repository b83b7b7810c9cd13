package httpidem_test

import (
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/internal/assert"
)

// TestNotRunOptions tests which statuses an operator may list: those that a service can answer
// before it acts.
func TestNotRunOptions(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]string{
		0: "NotRun has 0; use statuses of 300 to 599", 200: "NotRun has 200; use", 204: "NotRun has 204; use", 299: "use statuses", 600: "use statuses", -503: "use statuses",
		302: "", 400: "", 404: "", 409: "", 423: "", 429: "", 501: "", 503: "", 507: "", 599: "",
		500: "NotRun has 500, which also comes after a request has taken effect", 502: "NotRun has 502, which also", 504: "NotRun has 504, which also",
	} {
		o := &httpidem.Options{Tenant: httpidem.Global, Answer: httpidem.AnswerOptions{NotRun: []int{503, status}}}
		err := o.Validate(retrysafe.Policy{})
		if want == "" {
			assert.NoError(t, err, "%d", status)
			continue
		}
		assert.True(t, err != nil, "%d is refused", status)
		assert.Contains(t, err.Error(), want, "%d", status)
		o.Policy.OnDoubt = retrysafe.Reexecute
		assert.Equal(t, o.Validate(retrysafe.Policy{}) == nil, status >= 500 && status < 600, "%d under Reexecute", status)
	}
}
