package kafkaidem

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// partition is a partition of this consumer, from its assignment until it goes to another one. The
// source's lock guards it.
type partition struct {
	number     int32
	queue      []*kgo.Record   // read, and not handed out yet
	handedOut  []*handedRecord // handed out, in order, from the first unsettled one
	laterTries []*handedRecord // for a later try
	heldCount  int             // held by consumers
	leaving    bool            // nothing more is handed out
	lost       bool            // another consumer has it
	bytes      int             // of the queue
	paused     bool            // the client reads no more of it

	settled, committed kgo.EpochOffset // all records before these are

	next int64 // the offset after the last record that was read; -1: not known
}

// handedRecord is a record that was handed out.
type handedRecord struct {
	record     *kgo.Record
	deliveries int
	due        time.Time // of a later try
	settled    bool
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
	p.next = r.Offset + 1
}

// isFull reports whether more than one share-th of the records wait that may.
func (p *partition) isFull(share int) bool {
	return len(p.queue) >= mostQueued/share || p.bytes >= mostQueuedBytes/share
}

func newPartition(n int32) *partition {
	none := kgo.EpochOffset{Epoch: -1, Offset: -1}
	return &partition{number: n, settled: none, committed: none, next: -1}
}

// nextRecord returns the record to hand out, or else when there may be one; zero means after a
// change.
func (p *partition) nextRecord(now time.Time, ordered bool) (*handedRecord, time.Time) {
	if p.leaving || p.lost || ordered && p.heldCount > 0 {
		return nil, time.Time{}
	}
	var at time.Time
	for i, w := range p.laterTries {
		if !w.due.After(now) {
			p.laterTries = slices.Delete(p.laterTries, i, i+1)
			return w, at
		}
		if at.IsZero() || w.due.Before(at) {
			at = w.due
		}
	}
	if len(p.queue) == 0 || len(p.handedOut) >= mostOpen || ordered && len(p.laterTries) > 0 {
		return nil, at
	}
	w := &handedRecord{record: p.queue[0]}
	p.bytes -= len(w.record.Key) + len(w.record.Value)
	p.queue[0], p.queue = nil, p.queue[1:]
	p.handedOut = append(p.handedOut, w)
	return w, at
}

// settleRecord settles a record, and advances to the first unsettled one.
func (p *partition) settleRecord(w *handedRecord) {
	w.settled = true
	n := 0
	for n < len(p.handedOut) && p.handedOut[n].settled {
		r := p.handedOut[n].record
		p.settled = kgo.EpochOffset{Epoch: r.LeaderEpoch, Offset: r.Offset + 1}
		n++
	}
	p.handedOut = slices.Delete(p.handedOut, 0, n)
}

// hasUncommitted reports whether there is something to commit.
func (p *partition) hasUncommitted() bool {
	return !p.lost && p.settled.Offset >= 0 && p.settled != p.committed
}
