package rocketmqidem

import (
	"slices"
	"time"

	"github.com/apache/rocketmq-client-go/v2/primitive"

	"github.com/retrysafe/retrysafe/mqidem"
)

// queue is a queue of a topic that this consumer has, until it goes to another one. The source's
// lock guards it.
type queue struct {
	id         primitive.MessageQueue
	read       []*primitive.MessageExt // read, and not handed out yet
	handedOut  []*handedRecord         // handed out, in order, from the first unsettled one
	laterTries []*handedRecord         // for a later try in this process
	heldCount  int                     // held by consumers
	lost       bool                    // another consumer has it
	bytes      int                     // of the messages that were read
	roomMade   chan struct{}           // receives a value when more may be read
	settled    int64                   // all messages before this offset are
	known      bool                    // by the group, and not only because it has no offset
	next       int64                   // the offset to read from
}

// handedRecord is a message that was handed out.
type handedRecord struct {
	record     *primitive.MessageExt
	message    *mqidem.Message // once it was read; only its holder looks at it
	deliveries int             // by this process
	due        time.Time       // of a later try
	settled    bool
}

// readMessage returns the message of this delivery.
func (w *handedRecord) readMessage() *mqidem.Message {
	if w.message == nil {
		w.message = messageOf(w.record)
	}
	if w.deliveries <= 1 {
		return w.message
	}
	m := w.message.Clone()
	m.Deliveries += w.deliveries - 1
	return m
}

const (
	mostRead      = 256     // messages of a queue that wait to be handed out
	mostReadBytes = 4 << 20 // and their bytes
	mostOpen      = 10_000  // messages from the first unsettled one
)

// newQueue returns a queue that is read from the group's offset; below 0 the group has none.
func newQueue(id primitive.MessageQueue, offset int64) *queue {
	from := max(0, offset)
	return &queue{id: id, settled: from, next: from, known: offset >= 0, roomMade: make(chan struct{}, 1)}
}

// isFull reports whether no more messages should be read.
func (q *queue) isFull() bool { return len(q.read) >= mostRead || q.bytes >= mostReadBytes }

// add queues messages that were read, up to the offset next.
func (q *queue) add(records []*primitive.MessageExt, next int64) {
	for _, r := range records {
		if r.QueueOffset >= q.next { // the broker may give more than was asked for
			q.read = append(q.read, r)
			q.bytes += len(r.Body)
		}
	}
	q.next = max(q.next, next)
	q.advance()
}

// advance moves the offset of what is settled to the first unsettled message.
func (q *queue) advance() {
	n := 0
	for n < len(q.handedOut) && q.handedOut[n].settled {
		q.settled = q.handedOut[n].record.QueueOffset + 1
		n++
	}
	q.handedOut = slices.Delete(q.handedOut, 0, n)
	if len(q.handedOut) == 0 && len(q.read) == 0 { // what was left out is done too
		q.settled = max(q.settled, q.next)
	}
}

// nextRecord returns the message to hand out, or else when there may be one; zero means after a
// change.
func (q *queue) nextRecord(now time.Time, ordered bool) (*handedRecord, time.Time) {
	if q.lost || ordered && q.heldCount > 0 {
		return nil, time.Time{}
	}
	var at time.Time
	for i, w := range q.laterTries {
		if !w.due.After(now) {
			q.laterTries = slices.Delete(q.laterTries, i, i+1)
			return w, at
		}
		if at.IsZero() || w.due.Before(at) {
			at = w.due
		}
	}
	if len(q.read) == 0 || len(q.handedOut) >= mostOpen || ordered && len(q.laterTries) > 0 {
		return nil, at
	}
	w := &handedRecord{record: q.read[0]}
	q.bytes -= len(w.record.Body)
	q.read[0], q.read = nil, q.read[1:]
	q.handedOut = append(q.handedOut, w)
	if !q.isFull() {
		select {
		case q.roomMade <- struct{}{}:
		default:
		}
	}
	return w, at
}

// settleRecord settles a message.
func (q *queue) settleRecord(w *handedRecord) {
	w.settled = true
	q.advance()
}
