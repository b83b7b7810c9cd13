package fingerprint_test

import (
	"testing"

	"github.com/retrysafe/retrysafe/httpidem/fingerprint"
	"github.com/retrysafe/retrysafe/internal/assert"
)

// TestAllocations: the sum of a small body allocates only its own 33 bytes; all other memory is
// reused. The race detector allocates memory itself, and makes pools drop their contents.
func TestAllocations(t *testing.T) {
	if raceDetector {
		return
	}
	c := compile(t, fingerprint.Rule{Ignore: fingerprint.TimeFields()})
	body := []byte(`{"ts":1,"order":{"items":[{"sku":"a\u0041","n":2.50},{"n":1,"sku":"b"}]},"amount":10.00}`)
	got := testing.AllocsPerRun(200, func() {
		if _, err := c.Sum("application/json; charset=utf-8", "b=1&a=2&ts=5", body); err != nil {
			t.Fatal(err)
		}
	})
	assert.True(t, got <= 2, "%v allocations, at most 2", got)
}
