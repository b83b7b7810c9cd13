package filter

import (
	"fmt"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// TestBlockSize: the size that is computed keeps to the share that was asked for, and a hundredth
// of a bit less would not.
func TestBlockSize(t *testing.T) {
	t.Parallel()
	for _, share := range []float64{0.9, 0.5, 0.1, 0.01, 0.001, 1e-6, 1e-9, 1e-12, 1e-12 / 64} {
		perID, k := blockSize(share)
		got := blockedShare(blockBits/perID, k)
		_, less := bestBits(perID - 0.02)
		assert.True(t, k >= 1 && got <= share && less > share, "%v: %.2f bits for each id, %d of them set, share %v, and %v with less", share, perID, k, got, less)
	}
}

// TestMasks: an id sets bits in all places of a block alike, and k of them but for a few that meet.
func TestMasks(t *testing.T) {
	t.Parallel()
	for _, k := range []int{1, 6, 7, 8, 30, mostBits} {
		s, set := blockShape{parts: 1, blocks: 1, k: k}, [blockBits]int{}
		const n = 20_000
		for i := range n {
			m := s.maskOf(s.placeOf(fmt.Append(nil, i)).bits)
			for bit := range set {
				set[bit] += int(m[bit/64] >> (bit % 64) & 1)
			}
		}
		want := n * s.filledBy(1)
		for bit, count := range set {
			// six standard deviations of a binomial distribution
			d := float64(count) - want
			assert.True(t, d*d < 36*want, "bit %d is set by %d of %d ids, %.0f expected", bit, count, n, want)
		}
	}
}
