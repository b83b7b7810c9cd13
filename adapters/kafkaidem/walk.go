package kafkaidem

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/retrysafe/retrysafe/mqidem"
)

// walk is one of a partition of the parking. Nothing is written before the first message is removed: what is kept until then stays where it is.
type walk struct {
	p       *Parking
	ctx     context.Context //nolint:containedctx // it lives for one call
	n       int32
	see     func(context.Context, *mqidem.Parked) (mqidem.Verdict, error)
	kept    []*kgo.Record // before the first that is removed
	size    int           // of kept, in bytes
	removed bool
}

// mostKept is how many bytes are remembered; beyond that the walk writes, as if something had been removed.
const mostKept = 64 << 20

func (w *walk) run(at span) error {
	cl, err := kgo.NewClient(append(append([]kgo.Opt{}, w.p.connection...), kgo.KeepControlRecords(), // the last one may be one
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{w.p.o.Dead: {w.n: kgo.NewOffset().At(at.from)}}))...)
	if err != nil {
		return fmt.Errorf("kafkaidem: the options of the connection do not fit: %w", err)
	}
	defer cl.Close()
	for at.from < at.to {
		polling, end := context.WithTimeout(w.ctx, silence)
		got := cl.PollRecords(polling, 100)
		silent := polling.Err() != nil && w.ctx.Err() == nil && got.NumRecords() == 0
		end()
		if silent {
			if at, err = w.look(at); err != nil {
				return err
			}
			continue
		}
		if err := got.Err(); err != nil {
			return fmt.Errorf("kafkaidem: cannot read the parked messages; those before are dealt with: %w", explain(err))
		}
		for _, r := range got.Records() {
			if r.Offset >= at.to {
				return nil
			}
			if err := w.one(r); err != nil {
				return err
			}
			at.from = r.Offset + 1
		}
	}
	return nil
}

// silence is after how long without a record somebody looks whether there will be one.
const silence = 2 * time.Second

// look asks what there is by now: the rest may have been deleted, or lost by the brokers, since the walk began.
func (w *walk) look(at span) (span, error) {
	now, err := w.p.spans(w.ctx, &topicInfo{name: w.p.o.Dead, parts: []int32{w.n}})
	if err != nil {
		return at, fmt.Errorf("kafkaidem: cannot read the parked messages; those before are dealt with: %w", explain(err))
	}
	return span{max(at.from, now[w.n].from), min(at.to, now[w.n].to)}, nil
}

// one shows a message, and does what was said.
func (w *walk) one(r *kgo.Record) error {
	if r.Attrs.IsControl() {
		return nil
	}
	verdict, err := w.see(w.ctx, w.p.parked(r))
	if err != nil {
		return err
	}
	if verdict == mqidem.Remove {
		w.removed = true
		return w.pass(r, nil)
	}
	if w.removed {
		return w.pass(r, r)
	}
	w.kept = append(w.kept, r)
	w.size += len(r.Value) + len(r.Key)
	if w.size > mostKept {
		w.removed = true
		return w.pass(r, nil)
	}
	return nil
}

// pass writes what is kept again at the end, and then deletes all up to r. Killed in between, the next walk shows both.
func (w *walk) pass(r, keep *kgo.Record) error {
	if keep != nil {
		w.kept = append(w.kept, keep)
	}
	for _, k := range w.kept {
		again := &kgo.Record{Topic: w.p.o.Dead, Key: k.Key, Value: k.Value, Headers: k.Headers}
		if err := w.p.write(w.ctx, again); err != nil {
			return fmt.Errorf("kafkaidem: a parked message could not be kept behind one that was dealt with; the next walk shows them again: %w", explain(err))
		}
	}
	w.kept, w.size = nil, 0
	if err := deleteBefore(w.ctx, w.p.cl, w.p.o.Dead, w.n, r.Offset+1, w.p.o.Timeout); err != nil {
		return fmt.Errorf("kafkaidem: a parked message was dealt with, and is shown again by the next walk: %w", err)
	}
	return nil
}
