package kafkaidem

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/retrysafe/retrysafe/mqidem"
)

// walk is a walk of one partition of dead letters. It stores offsets and no messages. It writes and
// deletes nothing before it has shown everything, so a walk that removes nothing only reads.
type walk struct {
	deadLetters *DeadLetters
	ctx         context.Context //nolint:containedctx // it lives for one call
	partition   int32
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
	if err != nil { // the rest of the partition stays where it is, so as little as possible moves
		to = w.lastRemoved + 1
	}
	if failed := w.deleteRemoved(to); failed != nil {
		return errors.Join(err, failed)
	}
	return err
}

// readRecords calls each for records, and returns the offset that it has reached.
func (w *walk) readRecords(
	ctx context.Context, at offsetSpan, each func(context.Context, *kgo.Record) error,
) (int64, error) {
	from := map[int32]kgo.Offset{w.partition: kgo.NewOffset().At(at.from)}
	cl, err := kgo.NewClient(append(append([]kgo.Opt{}, w.deadLetters.connection...),
		kgo.KeepControlRecords(), // the last one may be one
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{w.deadLetters.o.DeadTopic: from}))...)
	if err != nil {
		return at.from, fmt.Errorf(
			"kafkaidem: the options of the connection do not fit: %w", err)
	}
	defer cl.Close()
	for at.from < at.to {
		polling, end := context.WithTimeout(ctx, silenceTime)
		got := cl.PollRecords(polling, 100)
		silent := polling.Err() != nil && ctx.Err() == nil && got.NumRecords() == 0
		end()
		if silent {
			if at, err = w.remainingSpan(ctx, at); err != nil {
				return at.from, err
			}
			continue
		}
		if err := got.Err(); err != nil {
			return at.from, fmt.Errorf("kafkaidem: cannot read the dead letters; "+
				"those before are dealt with: %w", explainError(err))
		}
		for _, r := range got.Records() {
			if r.Offset >= at.to {
				return at.to, nil
			}
			if !r.Attrs.IsControl() {
				if err := each(ctx, r); err != nil {
					return at.from, err
				}
			}
			at.from = r.Offset + 1
		}
	}
	return at.from, nil
}

// silenceTime is the time without a record after which the walk checks whether there will be one.
const silenceTime = 2 * time.Second

// remainingSpan returns what is left of a span. The rest may have been deleted, or lost by the
// brokers, since the walk began.
func (w *walk) remainingSpan(ctx context.Context, at offsetSpan) (offsetSpan, error) {
	now, err := w.deadLetters.offsetSpans(ctx, &topicInfo{name: w.deadLetters.o.DeadTopic, parts: []int32{w.partition}})
	if err != nil {
		return at, fmt.Errorf("kafkaidem: cannot read the dead letters; "+
			"those before are dealt with: %w", explainError(err))
	}
	return offsetSpan{max(at.from, now[w.partition].from), min(at.to, now[w.partition].to)}, nil
}

// showRecord shows a message, and stores the verdict.
func (w *walk) showRecord(ctx context.Context, r *kgo.Record) error {
	verdict, err := w.see(ctx, w.deadLetters.readDeadLetter(r))
	switch {
	case err != nil:
		return err
	case verdict == mqidem.Remove:
		w.removed[r.Offset], w.lastRemoved = true, r.Offset
	case w.firstKept < 0:
		w.firstKept = r.Offset
	}
	return nil
}

// deleteRemoved deletes the removed messages. The brokers only delete from the front. So the
// messages that were kept before a removed one, and all kept ones after them up to to, are read
// again and written at the end, which keeps the order. If the walk dies in between, the next one
// shows both copies. If the context has ended, deleteRemoved gets one more timeout, so that handled
// messages are not shown again only because the caller has left.
func (w *walk) deleteRemoved(to int64) error {
	ctx, end := context.WithCancel(context.WithoutCancel(w.ctx))
	defer end()
	defer context.AfterFunc(w.ctx, func() { time.AfterFunc(w.deadLetters.o.Timeout, end) })()
	if w.firstKept < 0 || w.firstKept > w.lastRemoved {
		to = w.lastRemoved + 1
	} else if _, err := w.readRecords(ctx, offsetSpan{w.firstKept, to}, w.rewriteKept); err != nil {
		return err
	}
	if err := deleteBefore(ctx, w.deadLetters.cl, w.deadLetters.o.DeadTopic, w.partition, to, w.deadLetters.o.Timeout); err != nil {
		return fmt.Errorf("kafkaidem: dead letters were dealt with, "+
			"and are shown again by the next walk: %w", err)
	}
	return nil
}

// rewriteKept writes a record again at the end, unless it was removed.
func (w *walk) rewriteKept(ctx context.Context, r *kgo.Record) error {
	if w.removed[r.Offset] {
		return nil
	}
	again := &kgo.Record{Topic: w.deadLetters.o.DeadTopic, Key: r.Key, Value: r.Value, Headers: r.Headers}
	if err := w.deadLetters.produceOne(ctx, again); err != nil {
		return fmt.Errorf("kafkaidem: a dead letter could not be kept after one that was "+
			"dealt with; the next walk shows them again: %w", explainError(err))
	}
	return nil
}
