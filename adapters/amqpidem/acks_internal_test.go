package amqpidem

import (
	"math/rand/v2"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// brokerModel keeps what RabbitMQ does: an ack with multiple set acks all outstanding tags up to
// its own, and a tag that is not outstanding ends the channel.
type brokerModel struct {
	*testing.T
	outstanding map[uint64]bool
	acked       map[uint64]bool
}

func (b *brokerModel) apply(p ackPlan) {
	b.Helper()
	if p.upTo != 0 {
		b.ack(p.upTo)
		for tag := range b.outstanding {
			if p.multiple && tag < p.upTo {
				b.ack(tag)
			}
		}
	}
	for _, tag := range p.single {
		b.ack(tag)
	}
}

func (b *brokerModel) ack(tag uint64) {
	b.Helper()
	assert.True(b, b.outstanding[tag], "tag %d is acked, which is not outstanding", tag)
	delete(b.outstanding, tag)
	b.acked[tag] = true
}

// TestAcksModel makes random histories of a channel: after each group exactly those tags are acked
// that were given, whatever is open, requeued or acked before.
func TestAcksModel(t *testing.T) {
	t.Parallel()
	multiples, singles := 0, 0
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 1))
		b := &brokerModel{T: t, outstanding: map[uint64]bool{}, acked: map[uint64]bool{}}
		var w tagWindow
		var open []uint64
		last, given := uint64(0), map[uint64]bool{}
		take := func() uint64 {
			at := r.IntN(len(open))
			if r.IntN(2) == 0 {
				at = r.IntN(min(3, len(open))) // mostly in order
			}
			tag := open[at]
			open = append(open[:at], open[at+1:]...)
			return tag
		}
		for range 300 {
			for range r.IntN(4) {
				last++
				b.outstanding[last] = true
				w.add(last)
				open = append(open, last)
			}
			if len(open) > 0 && r.IntN(5) == 0 {
				tag := take()
				w.markSettled([]uint64{tag})
				delete(b.outstanding, tag) // requeued
			}
			var group []uint64
			for range min(r.IntN(5), len(open)) {
				tag := take()
				group, given[tag] = append(group, tag), true
			}
			if len(group) == 0 {
				continue
			}
			p := w.markSettled(group)
			b.apply(p)
			assert.Equal(t, b.acked, given, "the tags that are acked (seed %d)", seed)
			assert.Equal(t, len(w.held) <= 2*len(open)+64, true, "%d tags are kept for %d open ones", len(w.held), len(open))
			if p.multiple {
				multiples++
			}
			singles += len(p.single)
		}
	}
	assert.True(t, multiples > 1000 && singles > 1000, "%d acks were multiple, %d single ones came beside", multiples, singles)
}

// TestAcksAllAtOnce: acks of everything that is open are one.
func TestAcksAllAtOnce(t *testing.T) {
	t.Parallel()
	var w tagWindow
	for tag := range uint64(100) {
		w.add(tag + 1)
	}
	p := w.markSettled([]uint64{3, 1, 2})
	assert.True(t, p.upTo == 3 && p.multiple && len(p.single) == 0, "the first three: %+v", p)
	p = w.markSettled([]uint64{5, 7})
	assert.True(t, p.upTo == 0 && len(p.single) == 2, "behind an open one: %+v", p)
	p = w.markSettled([]uint64{4, 9})
	assert.True(t, p.upTo == 4 && !p.multiple && len(p.single) == 1, "the open one: %+v", p)
	p = w.markSettled([]uint64{6, 8})
	assert.True(t, p.upTo == 8 && p.multiple && len(p.single) == 0, "tags between those that were acked before: %+v", p)
}
