package check_test

import (
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/check"
	"github.com/retrysafe/retrysafe/check/internal/servers"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/freeport"
)

// TestRefusingShop: a contract may say that each duplicate is answered with 409. The checks learn
// that once, and find no fault.
func TestRefusingShop(t *testing.T) {
	t.Parallel()
	s, err := servers.StartAnywhere(servers.Refusing(), t.TempDir(), freeport.Get)
	assert.NoError(t, err, "start")
	t.Cleanup(func() { _ = s.Close() })
	report, err := check.Examine(t.Context(), targetOf(s, "", 0), &check.Options{Rate: 1000, Patience: 10 * time.Second})
	assert.NoError(t, err, "examine")
	assert.Equal(t, len(brokenIn(t, report)), 0, "broken checks")
	assert.Equal(t, len(report.Notes), 1, "notes: %v", report.Notes)
	assert.Contains(t, report.Notes[0], "409", "note")
	assert.Equal(t, verdictOf(t, report, "sequential-duplicate"), check.Noted, "sequential-duplicate")
	assert.Equal(t, verdictOf(t, report, "concurrent-duplicates"), check.Passed, "concurrent-duplicates")
	assert.Equal(t, verdictOf(t, report, "half-body"), check.Passed, "half-body")
}

// TestPlanIsWithinTheCap: the default of MaxRequests is enough for all checks, whatever the API
// answers.
func TestPlanIsWithinTheCap(t *testing.T) {
	t.Parallel()
	most := 2 // to see that the request takes effect
	for _, c := range check.Checks() {
		most += c.Requests
	}
	assert.True(t, most <= 650, "%d requests at most, and 650 are allowed", most)
}
