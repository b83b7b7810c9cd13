package check

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// TestTimesAreNoLeak: a refusal that is made in the same second as the stored answer has the same
// time.
func TestTimesAreNoLeak(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for _, stamp := range []string{
		fmt.Sprint(now.Unix()), fmt.Sprint(now.UnixMilli()), fmt.Sprint(now.UnixMicro()), fmt.Sprint(now.UnixNano()),
		fmt.Sprintf("%d.25", now.Unix()), fmt.Sprintf(`"%d"`, now.Unix()),
		`"` + now.UTC().Format(time.RFC3339) + `"`, `"` + now.UTC().Format(http.TimeFormat) + `"`,
		`"` + now.Format(time.DateTime) + `"`, `"` + now.Format(time.DateOnly) + `"`,
		`"` + now.Format("2006-01-02T15:04:05.999999") + `"`,
	} {
		stored := &reply{body: fmt.Appendf(nil, `{"id":"pay_1234567","created":%s}`, stamp)}
		refusal := &reply{status: 401, body: fmt.Appendf(nil, `{"error":"no","timestamp":%s}`, stamp)}
		assert.Equal(t, len(findLeaks(stored, refusal, &reply{}, operation{})), 0, "leaks of %s", stamp)
		refusal.body = fmt.Appendf(nil, `{"error":"no","order":"pay_1234567","timestamp":%s}`, stamp)
		found := findLeaks(stored, refusal, &reply{}, operation{})
		assert.True(t, len(found) == 1 && found[0] == "$.id", "the id is a leak: %v", found)
	}
	stored := &reply{body: []byte(`{"number":4711471147}`)}
	refusal := &reply{status: 401, body: []byte(`{"error":"no","number":4711471147}`)}
	assert.Equal(t, len(findLeaks(stored, refusal, &reply{}, operation{})), 1, "a number that is no time")
}
