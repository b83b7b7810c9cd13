package filter

import (
	"math"

	"github.com/bits-and-blooms/bloom/v3"
)

// redisShape is the layout of one window of a [RedisBloom]: several parts with a key each. An id
// belongs to one part, and sets k of its bits.
type redisShape struct {
	parts int
	bits  uint // of a part, a multiple of 64
	k     uint // bits for each id
}

// newRedisShape divides the bits of a window into parts, so that all windows together keep to
// FalsePositive. By chance some parts get more ids than others. The parts are large enough that
// this raises the share of false positives by less than a hundredth.
func (o *Options) newRedisShape(most int, least uint) redisShape {
	m, k := bloom.EstimateParameters(uint(o.Items), o.FalsePositive/float64(o.Windows))
	parts := max(1, min(most, int(m/least)))
	bits := (m/uint(parts) + 64) / 64 * 64
	return redisShape{parts: parts, bits: bits, k: max(1, k)}
}

// fillShare returns the share of bits that ids have set, by the usual formula.
func (s redisShape) fillShare(ids float64) float64 {
	return 1 - math.Exp(-float64(s.k)*ids/(float64(s.bits)*float64(s.parts)))
}

// falsePositive returns the share of new ids that a window with so many ids says maybe to.
func (s redisShape) falsePositive(ids float64) float64 {
	return math.Pow(s.fillShare(ids), float64(s.k))
}

func (s redisShape) bytes() int64 { return int64(s.bits/8) * int64(s.parts) } //nolint:gosec // far below
