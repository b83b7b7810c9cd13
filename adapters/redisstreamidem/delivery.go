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
	s     *Source
	m     *mqidem.Message
	id    string // of the entry
	state *mqidem.Settlement
	lost  atomic.Bool // the stream has lost the entry, so no other consumer has it
}

func newDelivery(s *Source, id string, m *mqidem.Message) *delivery {
	return &delivery{s: s, m: m, id: id, state: mqidem.NewSettlement(0, nil)}
}

func (d *delivery) Message() *mqidem.Message { return d.m }

// Ack implements mqidem.Delivery. ErrStale means that the entry is no longer pending: another
// consumer has taken it over and settled it, or the stream was deleted.
func (d *delivery) Ack(ctx context.Context) error {
	return d.settle(ctx, false, func(ctx context.Context) error {
		if d.lost.Load() {
			return nil
		}
		return d.gone(d.s.eval(ctx, done, []string{d.s.o.Stream}, []string{d.s.o.Group, d.id, flag(d.s.o.Delete)}))
	})
}

// Retry implements mqidem.Delivery. It sends nothing: the entry stays with this consumer until the
// later try is due. If the stream has lost the entry, there is no later try, and the source reports
// it as lost.
func (d *delivery) Retry(ctx context.Context, after time.Duration) error {
	return d.settle(ctx, false, func(context.Context) error {
		if d.lost.Load() {
			d.s.lose([]string{d.id})
			return nil
		}
		d.s.mu.Lock()
		defer d.s.mu.Unlock()
		switch {
		case d.s.later == nil: // closed
			return mqidem.ErrStale
		case d.s.held[d.id] == d:
			delete(d.s.held, d.id)
			d.s.later[d.id] = time.Now().Add(after)
			d.s.queue.Wake()
		}
		return nil // otherwise another consumer has it by now
	})
}

// Dead implements mqidem.Delivery. One script writes the dead letter and acks the entry.
func (d *delivery) Dead(ctx context.Context, why mqidem.Reason) error {
	return d.settle(ctx, true, func(ctx context.Context) error {
		return mqidem.Fit(d.m, why, tooLarge, func(m *mqidem.Message, packed []byte) error {
			f := append(fields(m), mqidem.HeaderDead, string(packed))
			if len(f) > mostFields {
				return errTooLarge
			}
			what := flag(d.s.o.Delete)
			if d.lost.Load() {
				what = "lost"
			}
			args := append([]string{d.s.o.Group, d.id, what}, f...)
			return d.gone(d.s.eval(ctx, deadLetter, []string{d.s.o.Stream, d.s.o.DeadStream}, args))
		})
	})
}

var errTooLarge = errors.New("redisstreamidem: the message has more fields than can be written")

func tooLarge(err error) bool { return errors.Is(err, errTooLarge) }

// gone checks how many entries were settled, and returns ErrStale if there were none.
func (d *delivery) gone(v any, err error) error {
	if noGroup(err) {
		return mqidem.ErrStale
	}
	if n, err := number(v, err); err != nil || n == 1 {
		return err
	}
	return mqidem.ErrStale
}

// settle calls do. After an error of Ack or Retry the source no longer renews its claim, so another
// consumer gets the message after Idle; until then it can still be settled. If Dead fails, the
// caller still holds the message and tries again.
func (d *delivery) settle(ctx context.Context, keep bool, do func(context.Context) error) error {
	err := d.state.Settle(ctx, mqidem.SettleSteps{Check: d.sure, Answer: do})
	if err == nil || !keep || errors.Is(err, mqidem.ErrStale) {
		d.s.letGo(d)
		d.s.settledOne()
	}
	if err != nil && !errors.Is(err, mqidem.ErrSettled) {
		return fmt.Errorf("redisstreamidem: not settled; the message may come again: %w", err)
	}
	return err
}

// sure returns an error if the source was closed.
func (d *delivery) sure(context.Context) error {
	if d.s.queue.Err() != nil {
		return mqidem.ErrStale
	}
	return nil
}

// lostDelivery reports an entry that the stream has lost before it was settled.
type lostDelivery struct{ m *mqidem.Message }

var _ mqidem.Lost = (*lostDelivery)(nil)

func (d *lostDelivery) Message() *mqidem.Message                 { return d.m }
func (*lostDelivery) Ack(context.Context) error                  { return nil }
func (*lostDelivery) Retry(context.Context, time.Duration) error { return nil }
func (*lostDelivery) Dead(context.Context, mqidem.Reason) error  { return nil }

var errLost = errors.New("redisstreamidem: the entry was removed from the stream (MAXLEN, MINID or XDEL) while a consumer had it; let the stream be longer")

// Lost implements mqidem.Lost.
func (*lostDelivery) Lost() error { return errLost }

// byAge compares ids, which are two numbers with a hyphen between.
func byAge(a, b string) int {
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
