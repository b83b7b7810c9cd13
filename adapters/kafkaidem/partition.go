package kafkaidem

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// partition is a partition of this consumer, from its assignment until it goes to another one. The
// source's lock guards it.
type partition struct {
	n       int32
	queue   []*kgo.Record // read, and not handed out yet
	window  []*slot       // handed out, in order, from the first unsettled one
	waits   []*slot       // for a later try
	busy    int           // held by consumers
	leaving bool          // nothing more is handed out
	lost    bool          // another consumer has it
	bytes   int           // of the queue
	paused  bool          // the client reads no more of it

	settled, committed kgo.EpochOffset // all records before these are
}

// slot is a record that was handed out.
type slot struct {
	r          *kgo.Record
	deliveries int
	due        time.Time // of a later try
	done       bool
}

const (
	// Records of a partition that wait to be handed out, and their bytes. Above that the client
	// reads no more of the partition until half are left. When it reads on, a fetch that waits for
	// other partitions may still be open for fetchWait, so half must last about that long.
	mostQueued      = 8192
	mostQueuedBytes = 8 << 20
	fetchWait       = 100 * time.Millisecond

	mostOpen = 10_000 // records from the first unsettled one
)

// add queues a record.
func (p *partition) add(r *kgo.Record) {
	p.queue = append(p.queue, r)
	p.bytes += len(r.Key) + len(r.Value)
}

// full reports whether more than one share-th of the records wait that may.
func (p *partition) full(share int) bool {
	return len(p.queue) >= mostQueued/share || p.bytes >= mostQueuedBytes/share
}

func newPartition(n int32) *partition {
	none := kgo.EpochOffset{Epoch: -1, Offset: -1}
	return &partition{n: n, settled: none, committed: none}
}

// next returns the record to hand out, or else when there may be one; zero means after a change.
func (p *partition) next(now time.Time, ordered bool) (*slot, time.Time) {
	if p.leaving || p.lost || ordered && p.busy > 0 {
		return nil, time.Time{}
	}
	var at time.Time
	for i, w := range p.waits {
		if !w.due.After(now) {
			p.waits = slices.Delete(p.waits, i, i+1)
			return w, at
		}
		if at.IsZero() || w.due.Before(at) {
			at = w.due
		}
	}
	if len(p.queue) == 0 || len(p.window) >= mostOpen || ordered && len(p.waits) > 0 {
		return nil, at
	}
	w := &slot{r: p.queue[0]}
	p.bytes -= len(w.r.Key) + len(w.r.Value)
	p.queue[0], p.queue = nil, p.queue[1:]
	p.window = append(p.window, w)
	return w, at
}

// done settles a record, and advances to the first unsettled one.
func (p *partition) done(w *slot) {
	w.done = true
	n := 0
	for n < len(p.window) && p.window[n].done {
		r := p.window[n].r
		p.settled = kgo.EpochOffset{Epoch: r.LeaderEpoch, Offset: r.Offset + 1}
		n++
	}
	p.window = slices.Delete(p.window, 0, n)
}

// dirty reports whether there is something to commit.
func (p *partition) dirty() bool { return !p.lost && p.settled.Offset >= 0 && p.settled != p.committed }
