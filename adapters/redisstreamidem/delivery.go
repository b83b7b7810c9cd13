package redisstreamidem

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/retrysafe/retrysafe/mqidem"
)

// delivery is a message that a consumer holds.
type delivery struct {
	source  *Source
	message *mqidem.Message
	id      string // of the entry
	state   *mqidem.Settlement
	lost    atomic.Bool // the stream has lost the entry, so no other consumer has it
}

func newDelivery(s *Source, id string, m *mqidem.Message) *delivery {
	return &delivery{source: s, message: m, id: id, state: mqidem.NewSettlement(0, nil)}
}

func (d *delivery) Message() *mqidem.Message { return d.message }

// Ack implements mqidem.Delivery. ErrStale means that the entry is no longer pending: another
// consumer has taken it over and settled it, or the stream was deleted.
func (d *delivery) Ack(ctx context.Context) error {
	return d.settleOnce(ctx, false, func(ctx context.Context) error {
		if d.lost.Load() {
			return nil
		}
		return d.checkSettled(d.source.eval(ctx, doneScript, []string{d.source.o.Stream}, []string{d.source.o.Group, d.id, flagArg(d.source.o.Delete)}))
	})
}

// Retry implements mqidem.Delivery. It sends nothing: the entry stays with this consumer until the
// later try is due. If the stream has lost the entry, there is no later try, and the source reports
// it as lost.
func (d *delivery) Retry(ctx context.Context, after time.Duration) error {
	return d.settleOnce(ctx, false, func(context.Context) error {
		if d.lost.Load() {
			d.source.noteLost([]string{d.id})
			return nil
		}
		d.source.mu.Lock()
		defer d.source.mu.Unlock()
		switch {
		case d.source.laterTries == nil: // closed
			return mqidem.ErrStale
		case d.source.held[d.id] == d:
			delete(d.source.held, d.id)
			d.source.laterTries[d.id] = time.Now().Add(after)
			d.source.queue.Wake()
		}
		return nil // otherwise another consumer has it by now
	})
}

// Dead implements mqidem.Delivery. One script writes the dead letter and acks the entry.
func (d *delivery) Dead(ctx context.Context, why mqidem.Reason) error {
	return d.settleOnce(ctx, true, func(ctx context.Context) error {
		return mqidem.Fit(d.message, why, isTooLarge, func(m *mqidem.Message, packed []byte) error {
			f := append(messageFields(m), mqidem.HeaderDead, string(packed))
			if len(f) > mostFields {
				return errTooLarge
			}
			what := flagArg(d.source.o.Delete)
			if d.lost.Load() {
				what = "lost"
			}
			args := append([]string{d.source.o.Group, d.id, what}, f...)
			return d.checkSettled(d.source.eval(ctx, deadLetterScript, []string{d.source.o.Stream, d.source.o.DeadStream}, args))
		})
	})
}

var errTooLarge = errors.New("redisstreamidem: the message has more fields than can be written")

func isTooLarge(err error) bool { return errors.Is(err, errTooLarge) }

// checkSettled checks how many entries were settled, and returns ErrStale if there were none.
func (d *delivery) checkSettled(v any, err error) error {
	if isNoGroup(err) {
		return mqidem.ErrStale
	}
	if n, err := parseNumber(v, err); err != nil || n == 1 {
		return err
	}
	return mqidem.ErrStale
}

// settleOnce calls do. After an error of Ack or Retry the source no longer renews its claim, so
// another consumer gets the message after Idle; until then it can still be settled. If Dead fails,
// the caller still holds the message and tries again.
func (d *delivery) settleOnce(ctx context.Context, keep bool, do func(context.Context) error) error {
	err := d.state.Settle(ctx, mqidem.SettleSteps{Check: d.checkOpen, Answer: do})
	if err == nil || !keep || errors.Is(err, mqidem.ErrStale) {
		d.source.stopRenewing(d)
		d.source.noteSettled()
	}
	if err != nil && !errors.Is(err, mqidem.ErrSettled) {
		return fmt.Errorf("redisstreamidem: not settled; the message may be redelivered: %w", err)
	}
	return err
}

// checkOpen returns an error if the source was closed.
func (d *delivery) checkOpen(context.Context) error {
	if d.source.queue.Err() != nil {
		return mqidem.ErrStale
	}
	return nil
}

// lostDelivery reports an entry that the stream has lost before it was settled.
type lostDelivery struct{ message *mqidem.Message }

var _ mqidem.Lost = (*lostDelivery)(nil)

func (d *lostDelivery) Message() *mqidem.Message                 { return d.message }
func (*lostDelivery) Ack(context.Context) error                  { return nil }
func (*lostDelivery) Retry(context.Context, time.Duration) error { return nil }
func (*lostDelivery) Dead(context.Context, mqidem.Reason) error  { return nil }

var errLost = errors.New("redisstreamidem: the entry was removed from the stream (MAXLEN, MINID or XDEL) while a consumer had it; let the stream be longer")

// Lost implements mqidem.Lost.
func (*lostDelivery) Lost() error { return errLost }

// compareIDs compares ids, which are two numbers with a hyphen between.
func compareIDs(a, b string) int {
	part := func(id string) (ms, n uint64) {
		first, second, _ := strings.Cut(id, "-")
		ms, _ = strconv.ParseUint(first, 10, 64)
		n, _ = strconv.ParseUint(second, 10, 64)
		return ms, n
	}
	a1, a2 := part(a)
	b1, b2 := part(b)
	return cmp.Or(cmp.Compare(a1, b1), cmp.Compare(a2, b2))
}
