package filter

import (
	"math/bits"
	"sync/atomic"

	"github.com/dgryski/go-metro"
)

// A blocked Bloom filter sets all bits of an id in one block of the size of a cache line, so a call
// costs one cache miss in place of one for each bit. Blocks get different numbers of ids by chance,
// so it takes about a tenth more bits for the same share of false positives. See Putze, Sanders and
// Singler, "Cache-, Hash- and Space-Efficient Bloom Filters" (2007).

// blockBits is the size of a block, that of a cache line of most processors.
const blockBits = 512

type block [blockBits / 64]uint64

// mask has the bits of an id in its block.
type mask = block

// place is where an id belongs: its part, its block in the part, and its bits in the block.
type place struct {
	part, block int
	bits        uint64 // the seed of the bits
}

func (s blockShape) placeOf(id []byte) place {
	at, seed := metro.Hash128(id, 0x7e74)
	part, rest := bits.Mul64(at, uint64(s.parts))  //nolint:gosec // positive and small
	block, _ := bits.Mul64(rest, uint64(s.blocks)) //nolint:gosec // positive
	return place{int(part), int(block), seed}      //nolint:gosec // below parts and blocks
}

// maskOf returns the bits of an id. Nine bits of the seed make one of them. A seed that is used up
// is mixed again.
func (s blockShape) maskOf(seed uint64) (m mask) {
	left := seed
	for i := range s.k {
		if i%7 == 0 && i > 0 {
			seed = nextSplitMix(seed)
			left = seed
		}
		m[left>>6%uint64(len(m))] |= 1 << (left % 64)
		left >>= 9
	}
	return m
}

// nextSplitMix is the next number of SplitMix64 (Steele, Lea and Flood 2014).
func nextSplitMix(x uint64) uint64 {
	x += 0x9E3779B97F4A7C15
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return x ^ x>>31
}

// hasBits reports whether all bits of m are set. It may run beside add and clear.
func (b *block) hasBits(m *mask) bool {
	for i := range b {
		if m[i] != 0 && atomic.LoadUint64(&b[i])&m[i] != m[i] {
			return false
		}
	}
	return true
}

// add sets the bits of m and reports whether they were set before. Only one goroutine at a time may
// change a block.
func (b *block) add(m *mask) (seen bool) {
	seen = true
	for i := range b {
		if old := atomic.LoadUint64(&b[i]); old&m[i] != m[i] {
			seen = false
			atomic.StoreUint64(&b[i], old|m[i])
		}
	}
	return seen
}

// clear removes all bits, like add.
func (b *block) clear() {
	for i := range b {
		if atomic.LoadUint64(&b[i]) != 0 {
			atomic.StoreUint64(&b[i], 0)
		}
	}
}
