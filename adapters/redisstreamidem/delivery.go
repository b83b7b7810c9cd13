package redisstreamidem

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe/mqidem"
)

// delivery is a message that a consumer holds.
type delivery struct {
	s  *Source
	m  *mqidem.Message
	id string // of the entry

	mu      sync.Mutex
	settled bool
}

func (d *delivery) Message() *mqidem.Message { return d.m }

// Ack implements mqidem.Delivery. ErrStale means that the entry is no longer pending: another
// consumer has taken it over and settled it, or the stream was deleted.
func (d *delivery) Ack(ctx context.Context) error {
	return d.settle(false, func() error {
		return d.gone(d.s.eval(ctx, done, []string{d.s.o.Stream}, []string{d.s.o.Group, d.id, flag(d.s.o.Delete)}))
	})
}

// Retry implements mqidem.Delivery. It sends nothing: the entry stays with this consumer until the
// later try is due.
func (d *delivery) Retry(ctx context.Context, after time.Duration) error {
	return d.settle(false, func() error {
		if err := ctx.Err(); err != nil {
			return err
		}
		d.s.mu.Lock()
		defer d.s.mu.Unlock()
		switch {
		case d.s.later == nil: // closed
			return mqidem.ErrStale
		case d.s.held[d.id] == d:
			delete(d.s.held, d.id)
			d.s.later[d.id] = time.Now().Add(after)
			d.s.wake()
		}
		return nil // otherwise another consumer has it by now
	})
}

// Dead implements mqidem.Delivery. One script writes the dead letter and acks the entry.
func (d *delivery) Dead(ctx context.Context, why mqidem.Reason) error {
	return d.settle(true, func() error {
		return mqidem.Fit(d.m, why, tooLarge, func(m *mqidem.Message, packed []byte) error {
			f := append(fields(m), mqidem.HeaderDead, string(packed))
			if len(f) > mostFields {
				return errTooLarge
			}
			args := append([]string{d.s.o.Group, d.id, flag(d.s.o.Delete)}, f...)
			return d.gone(d.s.eval(ctx, deadLetter, []string{d.s.o.Stream, d.s.o.Dead}, args))
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
func (d *delivery) settle(mayFail bool, do func() error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.settled {
		return mqidem.ErrSettled
	}
	if d.s.closed() {
		return fmt.Errorf("redisstreamidem: not settled: %w", mqidem.ErrStale)
	}
	if err := do(); err != nil {
		if !mayFail || errors.Is(err, mqidem.ErrStale) {
			d.s.letGo(d)
		}
		return fmt.Errorf("redisstreamidem: not settled; the message may come again: %w", err)
	}
	d.settled = true
	d.s.letGo(d)
	return nil
}

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
