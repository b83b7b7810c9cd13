package rocketmqidem

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/apache/rocketmq-client-go/v2/primitive"

	"github.com/retrysafe/retrysafe/backoff"
	"github.com/retrysafe/retrysafe/mqidem"
)

// Walk implements mqidem.DeadLetters. RocketMQ cannot delete single messages. So the place of walks
// is the offset of a group of its own, the group's name with "-retrysafe-dead" after it: dead
// letters before it are removed. A walk moves it when it has shown all of a queue, also if see or
// the context ends it. If the process dies before, the next walk shows them again. Messages that
// are kept before a removed one are written again at the end. A walk that removes nothing writes
// nothing. If the topic has several queues, each has its own order, and one comes after the other.
func (p *DeadLetters) Walk(ctx context.Context, see func(context.Context, *mqidem.DeadLetter) (mqidem.Verdict, error)) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	c, spans, err := p.openWalk(ctx)
	if err != nil {
		return fmt.Errorf("rocketmqidem: cannot look at the dead letters; nothing was changed: %w", err)
	}
	defer c.close()
	for _, at := range spans {
		if at.from < at.to {
			w := &walk{deadLetters: p, client: c, ctx: ctx, queue: at.queue, see: see}
			if err := w.run(at); err != nil {
				return err
			}
		}
	}
	return ctx.Err()
}

// offsetSpan is the range of offsets of a queue that a walk shows.
type offsetSpan struct {
	queue    primitive.MessageQueue
	from, to int64
}

// openWalk returns a client of the walks' group, and what there is to show.
func (p *DeadLetters) openWalk(ctx context.Context) (c *groupClient, spans []offsetSpan, err error) {
	ctx, end := context.WithTimeout(ctx, p.o.Timeout)
	defer end()
	queues, err := p.queuesOfDead(ctx)
	if err != nil {
		return nil, nil, err
	}
	if c, err = newGroupClient(p.servers, p.o.walkGroup()); err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			c.close()
		}
	}()
	// The client reads its list of queues without a lock, so it gets the list before it starts.
	if err = errors.Join(c.pull.Assign(p.o.DeadTopic, queues), c.pull.Start()); err != nil {
		return c, nil, err
	}
	owned := c.held()
	for tries := 1; len(owned) < len(queues); tries++ {
		if err = backoff.Pause(ctx, 20*time.Millisecond); err != nil {
			return c, nil, err
		}
		if tries%50 == 0 { // a broker was not reached
			c.rebalance()
		}
		owned = c.held()
	}
	for id, offset := range owned {
		at, err := queueSpan(ctx, c, id)
		if err != nil {
			return c, nil, err
		}
		at.from = max(at.from, offset)
		spans = append(spans, at)
	}
	slices.SortFunc(spans, func(a, b offsetSpan) int { return compareQueues(a.queue, b.queue) })
	return c, spans, nil
}

// queuesOfDead returns the queues of the topic of dead letters.
func (p *DeadLetters) queuesOfDead(ctx context.Context) ([]*primitive.MessageQueue, error) {
	a, err := newAdmin(p.servers)
	if err != nil {
		return nil, err
	}
	defer a.Close()
	return queuesOf(ctx, a, p.o.DeadTopic)
}

// queueSpan asks for the oldest message of a queue and the end of the queue. The client has no call
// for that. But the answer to a read far behind the end says both, and does not wait.
func queueSpan(ctx context.Context, c *groupClient, id primitive.MessageQueue) (offsetSpan, error) {
	r, err := c.pullFrom(ctx, id, 1<<60)
	if err != nil {
		return offsetSpan{}, err
	}
	return offsetSpan{id, r.MinOffset, r.MaxOffset}, nil
}

// walk is a walk of one queue of dead letters. It stores offsets and no messages. It writes nothing
// before it has shown everything, so a walk that removes nothing only reads.
type walk struct {
	deadLetters *DeadLetters
	client      *groupClient
	ctx         context.Context //nolint:containedctx // it lives for one call
	queue       primitive.MessageQueue
	see         func(context.Context, *mqidem.DeadLetter) (mqidem.Verdict, error)
	firstKept   int64 // the first that is kept; -1: none
	removed     map[int64]bool
	lastRemoved int64 // the last one of removed
}

func (w *walk) run(at offsetSpan) error {
	w.firstKept, w.removed = -1, map[int64]bool{}
	shown, err := w.readRecords(w.ctx, at, w.showRecord)
	if len(w.removed) == 0 {
		return err
	}
	to := shown
	if err != nil { // the rest of the queue stays where it is, so as little as possible moves
		to = w.lastRemoved + 1
	}
	if failed := w.deleteRemoved(to); failed != nil {
		return errors.Join(err, failed)
	}
	return err
}

// readRecords calls each for messages, and returns the offset that it has reached.
func (w *walk) readRecords(ctx context.Context, at offsetSpan, each func(context.Context, *primitive.MessageExt) error) (int64, error) {
	for at.from < at.to {
		r, err := w.client.pullFrom(ctx, w.queue, at.from)
		if err == nil && r.NextBeginOffset <= at.from {
			err = fmt.Errorf("the broker reads no further than to offset %d", at.from)
		}
		if err != nil {
			return at.from, fmt.Errorf("rocketmqidem: cannot read the dead letters; those before are dealt with: %w", err)
		}
		for _, m := range r.GetMessageExts() {
			if m.QueueOffset >= at.to {
				return at.to, nil
			}
			if m.QueueOffset < at.from {
				continue
			}
			if err := each(ctx, m); err != nil {
				return at.from, err
			}
			at.from = m.QueueOffset + 1
		}
		at.from = r.NextBeginOffset
	}
	return at.to, nil
}

// showRecord shows a message, and stores the verdict.
func (w *walk) showRecord(ctx context.Context, r *primitive.MessageExt) error {
	verdict, err := w.see(ctx, w.deadLetters.readDeadLetter(r))
	switch {
	case err != nil:
		return err
	case verdict == mqidem.Remove:
		w.removed[r.QueueOffset], w.lastRemoved = true, r.QueueOffset
	case w.firstKept < 0:
		w.firstKept = r.QueueOffset
	}
	return nil
}

// deleteRemoved moves the place of walks past the removed messages. The messages that were kept
// before a removed one, and all kept ones after them up to to, are read again and written at the
// end, which keeps the order. If the walk dies in between, the next one shows both copies. If the
// context has ended, deleteRemoved gets one more timeout, so that handled messages are not shown
// again only because the caller has left.
func (w *walk) deleteRemoved(to int64) error {
	ctx, end := context.WithCancel(context.WithoutCancel(w.ctx))
	defer end()
	defer context.AfterFunc(w.ctx, func() { time.AfterFunc(w.deadLetters.o.Timeout, end) })()
	if w.firstKept < 0 || w.firstKept > w.lastRemoved {
		to = w.lastRemoved + 1
	} else if _, err := w.readRecords(ctx, offsetSpan{w.queue, w.firstKept, to}, w.rewriteKept); err != nil {
		return err
	}
	if err := w.deadLetters.storePlace(ctx, w.client, w.queue, to); err != nil {
		return fmt.Errorf("rocketmqidem: dead letters were dealt with, and are shown again by the next walk: %w", err)
	}
	return nil
}

// rewriteKept writes a message again at the end, unless it was removed.
func (w *walk) rewriteKept(ctx context.Context, r *primitive.MessageExt) error {
	if w.removed[r.QueueOffset] {
		return nil
	}
	m := messageOf(r)
	props := propertiesOf(m)
	props[propPublished] = strconv.FormatInt(m.Published.UnixMilli(), 10)
	again := newRecord(w.deadLetters.o.DeadTopic, m.Body, props)
	if err := w.deadLetters.sender.send(ctx, 0, again); err != nil {
		return fmt.Errorf("rocketmqidem: a dead letter could not be kept after one that was dealt with; the next walk shows them again: %w", explainError(err))
	}
	return nil
}

// storePlace stores the place of walks in a queue. The client sends it without waiting for an
// answer, so another client asks for it.
func (p *DeadLetters) storePlace(ctx context.Context, c *groupClient, id primitive.MessageQueue, offset int64) error {
	ctx, end := context.WithTimeout(ctx, p.o.Timeout)
	defer end()
	for {
		err := errors.Join(c.pull.UpdateOffset(&id, offset), c.pull.PersistOffset(ctx, p.o.DeadTopic))
		if err == nil {
			c.awaitCommits([]string{id.BrokerName}, p.o.DeadTopic)
			var stored int64
			if stored, err = untilDone(ctx, func() (int64, error) { return p.storedPlace(id) }); err == nil && stored == offset {
				return nil
			}
		}
		if paused := backoff.Pause(ctx, 100*time.Millisecond); paused != nil {
			return errors.Join(err, errors.New("the broker has not confirmed the offset"), paused)
		}
	}
}

// storedPlace asks the broker for the place of walks in a queue. A client that has no queues has no
// offset in memory.
func (p *DeadLetters) storedPlace(id primitive.MessageQueue) (int64, error) {
	c, err := newGroupClient(p.servers, p.o.walkGroup())
	if err != nil {
		return 0, err
	}
	defer c.close()
	if err := errors.Join(c.pull.Assign(p.o.DeadTopic, nil), c.pull.Start()); err != nil {
		return 0, err
	}
	return c.pull.CurrentOffset(&id)
}
