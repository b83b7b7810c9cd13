package filter

import "math"

// blockShape is the layout of one window of a [Bloom]: several parts with a lock each, of so many
// blocks. An id belongs to one part, and sets k bits of one of its blocks.
type blockShape struct {
	parts, blocks int
	k             int
}

// mostBits is the largest number of bits that an id sets.
const mostBits = 49

// newBlockShape divides the bits of a window into parts. By chance some parts get more ids than
// others. The parts are large enough that this raises the share of false positives by less than a
// hundredth.
func (o *Options) newBlockShape() blockShape {
	perID, k := blockSize(o.FalsePositive / float64(o.Windows))
	blocks := perID * float64(o.Items) / blockBits
	parts := max(1, min(64, int(blocks/256)))
	return blockShape{parts: parts, blocks: int(math.Ceil(blocks / float64(parts))), k: k}
}

// blockSize returns how many bits of memory an id needs for this share of false positives, and how
// many of them to set.
func blockSize(share float64) (perID float64, k int) {
	low, high := -1.44*math.Log2(share), 400.0
	for high-low > 0.01 {
		perID = (low + high) / 2
		if _, best := bestBits(perID); best <= share {
			high = perID
		} else {
			low = perID
		}
	}
	k, _ = bestBits(high)
	return high, k
}

// bestBits returns how many bits to set for each id if there are perID bits of memory, and the
// share of false positives.
func bestBits(perID float64) (k int, share float64) {
	share = 2
	most := min(mostBits, int(perID*math.Ln2)+2)
	for try := (most + 2) / 3; try <= most; try++ {
		if s := blockedShare(blockBits/perID, try); s < share {
			k, share = try, s
		}
	}
	return k, share
}

// blockedShare returns the share of false positives if the blocks have mean ids on average. The
// number of ids in a block has a Poisson distribution.
func blockedShare(mean float64, k int) float64 {
	total := 0.0
	last := mean + 12*math.Sqrt(mean) + 30
	for n := 1.0; n <= last; n++ {
		chance, _ := math.Lgamma(n + 1)
		chance = math.Exp(n*math.Log(mean) - mean - chance)
		total += chance * shareOf(n*float64(k), k)
	}
	return total
}

// shareOf returns the share of false positives of a block in which so many bits were set, some of
// them twice: the mean of the k-th power of its fill. That is more than the power of the mean, by
// the variance of how many bits are still unset.
func shareOf(set float64, k int) float64 {
	unset, pairs := math.Pow(1-1.0/blockBits, set), math.Pow(1-2.0/blockBits, set)
	variance := max(0, unset/blockBits+(1-1.0/blockBits)*pairs-unset*unset)
	fill := 1 - unset
	return min(1, math.Pow(fill, float64(k))*(1+float64(k*(k-1))/2*variance/(fill*fill)))
}

func (s blockShape) meanIDs(ids float64) float64 { return ids / (float64(s.parts) * float64(s.blocks)) }

// filledBy returns the share of the bits of a block that n ids have set.
func (s blockShape) filledBy(n float64) float64 {
	return 1 - math.Pow(1-1.0/blockBits, float64(s.k)*n)
}

// fillShare returns the share of bits that so many ids have set.
func (s blockShape) fillShare(ids float64) float64 {
	return 1 - math.Exp(-s.meanIDs(ids)*s.filledBy(1))
}

// falsePositive returns the share of new ids that a window with so many ids says maybe to.
func (s blockShape) falsePositive(ids float64) float64 {
	if ids == 0 {
		return 0
	}
	return blockedShare(s.meanIDs(ids), s.k)
}

func (s blockShape) bytes() int64 { return blockBits / 8 * int64(s.blocks) * int64(s.parts) }
