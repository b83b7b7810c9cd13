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
	p    *DeadLetters
	ctx  context.Context //nolint:containedctx // it lives for one call
	n    int32
	see  func(context.Context, *mqidem.DeadLetter) (mqidem.Verdict, error)
	kept int64 // the first that is kept; -1: none
	gone map[int64]bool
	last int64 // the last one of gone
}

func (w *walk) run(at span) error {
	w.kept, w.gone = -1, map[int64]bool{}
	shown, err := w.read(w.ctx, at, w.show)
	if len(w.gone) == 0 {
		return err
	}
	to := shown
	if err != nil { // the rest of the partition stays where it is, so as little as possible moves
		to = w.last + 1
	}
	if failed := w.remove(to); failed != nil {
		return errors.Join(err, failed)
	}
	return err
}

// read calls each for records, and returns the offset that it has reached.
func (w *walk) read(
	ctx context.Context, at span, each func(context.Context, *kgo.Record) error,
) (int64, error) {
	from := map[int32]kgo.Offset{w.n: kgo.NewOffset().At(at.from)}
	cl, err := kgo.NewClient(append(append([]kgo.Opt{}, w.p.connection...),
		kgo.KeepControlRecords(), // the last one may be one
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{w.p.o.DeadTopic: from}))...)
	if err != nil {
		return at.from, fmt.Errorf(
			"kafkaidem: the options of the connection do not fit: %w", err)
	}
	defer cl.Close()
	for at.from < at.to {
		polling, end := context.WithTimeout(ctx, silence)
		got := cl.PollRecords(polling, 100)
		silent := polling.Err() != nil && ctx.Err() == nil && got.NumRecords() == 0
		end()
		if silent {
			if at, err = w.look(ctx, at); err != nil {
				return at.from, err
			}
			continue
		}
		if err := got.Err(); err != nil {
			return at.from, fmt.Errorf("kafkaidem: cannot read the dead letters; "+
				"those before are dealt with: %w", explain(err))
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

// silence is the time without a record after which the walk checks whether there will be one.
const silence = 2 * time.Second

// look returns what is left of a span. The rest may have been deleted, or lost by the brokers,
// since the walk began.
func (w *walk) look(ctx context.Context, at span) (span, error) {
	now, err := w.p.spans(ctx, &topicInfo{name: w.p.o.DeadTopic, parts: []int32{w.n}})
	if err != nil {
		return at, fmt.Errorf("kafkaidem: cannot read the dead letters; "+
			"those before are dealt with: %w", explain(err))
	}
	return span{max(at.from, now[w.n].from), min(at.to, now[w.n].to)}, nil
}

// show shows a message, and stores the verdict.
func (w *walk) show(ctx context.Context, r *kgo.Record) error {
	verdict, err := w.see(ctx, w.p.read(r))
	switch {
	case err != nil:
		return err
	case verdict == mqidem.Remove:
		w.gone[r.Offset], w.last = true, r.Offset
	case w.kept < 0:
		w.kept = r.Offset
	}
	return nil
}

// remove deletes the removed messages. The brokers only delete from the front. So the messages that
// were kept before a removed one, and all kept ones after them up to to, are read again and written
// at the end, which keeps the order. If the walk dies in between, the next one shows both copies.
// If the context has ended, remove gets one more timeout, so that handled messages are not shown
// again only because the caller has left.
func (w *walk) remove(to int64) error {
	ctx, end := context.WithCancel(context.WithoutCancel(w.ctx))
	defer end()
	defer context.AfterFunc(w.ctx, func() { time.AfterFunc(w.p.o.Timeout, end) })()
	if w.kept < 0 || w.kept > w.last {
		to = w.last + 1
	} else if _, err := w.read(ctx, span{w.kept, to}, w.keep); err != nil {
		return err
	}
	if err := deleteBefore(ctx, w.p.cl, w.p.o.DeadTopic, w.n, to, w.p.o.Timeout); err != nil {
		return fmt.Errorf("kafkaidem: dead letters were dealt with, "+
			"and are shown again by the next walk: %w", err)
	}
	return nil
}

// keep writes a record again at the end, unless it was removed.
func (w *walk) keep(ctx context.Context, r *kgo.Record) error {
	if w.gone[r.Offset] {
		return nil
	}
	again := &kgo.Record{Topic: w.p.o.DeadTopic, Key: r.Key, Value: r.Value, Headers: r.Headers}
	if err := w.p.write(ctx, again); err != nil {
		return fmt.Errorf("kafkaidem: a dead letter could not be kept after one that was "+
			"dealt with; the next walk shows them again: %w", explain(err))
	}
	return nil
}
