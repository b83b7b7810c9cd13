package filter

// Stats has the counters since the filter was created, and its current state. Estimates are
// computed from the number of ids, by the usual formula.
type Stats struct {
	// Added counts the calls of Add; SurelyNew and Maybe count their answers.
	Added, SurelyNew, Maybe uint64
	// Rotations is how many windows have ended.
	Rotations int64
	// Items is the number of different ids in the current window.
	Items int
	// Fill is the share of bits that are set in the current window.
	Fill float64
	// FalsePositive is the current share of new ids that get "maybe seen", by all windows together.
	FalsePositive float64
	// Overfull: the current window has more ids than [Options].Items.
	Overfull bool
	// Whole: all inserted ids are in the filter, as far as it knows. If not, it says maybe to every
	// id.
	Whole bool
	// Bytes is the memory of the bits.
	Bytes int64
}

// Stats reads the parts one after the other, so the values are not from a single moment.
func (b *Bloom) Stats() Stats {
	turn := b.clock.currentWindow()
	s := Stats{Whole: b.whole.get()}
	first := b.clock.wall
	if b.o.Window > 0 {
		s.Rotations = turn - first/int64(b.o.Window)
	}
	ids := make([]int, b.o.Windows)
	for i := range b.parts {
		p := &b.parts[i]
		p.mu.Lock()
		p.rotate(turn)
		s.Added += p.added
		s.SurelyNew += p.surelyNew
		for n := range ids {
			ids[n] += int(p.windowAt(p.currentWindow.Load() - int64(n) + int64(len(ids))).ids.Load())
		}
		p.mu.Unlock()
	}
	s.Maybe = s.Added - s.SurelyNew
	s.setEstimates(b.shape, ids, b.o.Items)
	return s
}

// layout is that of the bits of one window.
type layout interface {
	// fillShare returns the share of bits that so many ids have set.
	fillShare(ids float64) float64
	// falsePositive returns the share of new ids that a window with so many ids says maybe to.
	falsePositive(ids float64) float64
	// bytes is the memory of one window.
	bytes() int64
}

// setEstimates fills in what follows from the number of ids in the windows, the current one first.
func (out *Stats) setEstimates(l layout, ids []int, items int) {
	out.Items = ids[0]
	out.Overfull = ids[0] > items
	out.Fill = l.fillShare(float64(ids[0]))
	right := 1.0
	for _, n := range ids {
		right *= 1 - l.falsePositive(float64(n))
	}
	out.FalsePositive = 1 - right
	out.Bytes = l.bytes() * int64(len(ids))
}
