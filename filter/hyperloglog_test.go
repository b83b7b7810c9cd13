package filter_test

import (
	"testing"

	"github.com/axiomhq/hyperloglog"

	"github.com/retrysafe/retrysafe/filter"
	"github.com/retrysafe/retrysafe/internal/assert"
)

// TestHyperLogLog: an added id is never new. The share of new ids that are recognised is that of
// the formula. The registers are those of the library.
func TestHyperLogLog(t *testing.T) {
	t.Parallel()
	for _, precision := range []int{14, 18} {
		h, err := filter.NewHyperLogLog(&filter.Options{Empty: true, Precision: precision})
		assert.NoError(t, err, "a sketch")
		theirs, err := hyperloglog.NewSketch(uint8(precision), false)
		assert.NoError(t, err, "the library's")
		const n = 100_000
		for i := range uint64(n) {
			h.Add(id(i))
			theirs.Insert(id(i))
		}
		for i := range uint64(n) {
			if h.MaybeSeen(id(i)) && !h.Add(id(i)) {
				continue
			}
			t.Fatalf("%d is said to be new", i)
		}
		assert.Equal(t, h.Estimate(), theirs.Estimate(), "estimate")
		newOnes := 0
		for i := range uint64(n) {
			if !h.MaybeSeen(id(n + i)) {
				newOnes++
			}
		}
		got, s := float64(newOnes)/n, h.Stats()
		want := 1 - s.FalsePositive
		assert.True(t, got > 0.9*want && got < 1.1*want, "precision %d: %v of new ids are recognised, %v by the registers", precision, got, want)
		if precision == 14 {
			assert.True(t, got > 0.09 && got < 0.14, "recognised at 100 000: %v", got)
		}
		assert.True(t, s.Added == 2*n && s.Added == s.SurelyNew+s.Maybe && s.Bytes == 1<<precision, "stats %+v", s)
	}
}
