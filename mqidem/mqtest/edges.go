package mqtest

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/retrysafe/retrysafe/mqidem"
)

// substitute puts a message into the queue that no outbox publisher writes, and receives it.
func (e *env) substitute(change func(*mqidem.Message)) (mqidem.Source, mqidem.Delivery, error) {
	if _, err := e.publish("before"); err != nil {
		return nil, nil, err
	}
	s := e.open()
	d, err := e.next(s)
	if err != nil {
		return nil, nil, err
	}
	m := d.Message().Clone()
	change(m)
	if err := e.DeadLetters.Send(e.ctx, m); err != nil {
		return nil, nil, fmt.Errorf("Send: %w", err)
	}
	if err := d.Ack(e.ctx); err != nil {
		return nil, nil, fmt.Errorf("Ack: %w", err)
	}
	d, err = e.next(s)
	return s, d, err
}

// Q13: a message without an id still has none after it was dead-lettered and redriven. With an id
// it would be another message.
func withoutID(e *env) error {
	s, d, err := e.substitute(func(m *mqidem.Message) { m.ID = "" })
	for round := 1; err == nil; round++ {
		if m := d.Message(); m.ID != "" || string(m.Body) != "before" {
			return fmt.Errorf("round %d: a message without an id came with the id %q and the body %q", round, m.ID, m.Body)
		}
		if round == 3 {
			return d.Ack(e.ctx)
		}
		if err := d.Dead(e.ctx, reason(d.Message())); err != nil {
			return fmt.Errorf("Dead: %w", err)
		}
		found, err := e.look()
		if err != nil {
			return err
		}
		if len(found) != round || found[0].Message.ID != "" {
			return fmt.Errorf("round %d: %d messages are dead letters, the first with an id: %v", round, len(found), len(found) > 0 && found[0].Message.ID != "")
		}
		if err := e.DeadLetters.Send(e.ctx, found[0].Message); err != nil {
			return fmt.Errorf("Send: %w", err)
		}
		if d, err = e.next(s); err != nil {
			return err
		}
	}
	return err
}

// Q14: the largest message can be dead-lettered with its reason. If a part does not fit, it is left
// out, and the reason says so.
func largest(e *env) error {
	var whole mqidem.Message
	s, d, err := e.substitute(func(m *mqidem.Message) {
		if e.Fill != nil {
			e.Fill(m)
		}
		whole = *m.Clone()
	})
	if err != nil {
		return err
	}
	if !bytes.Equal(d.Message().Body, whole.Body) {
		return errors.New("the largest message did not come as it was sent")
	}
	why := reason(d.Message())
	why.Error = strings.Repeat("e", 1000)
	if err := d.Dead(e.ctx, why); err != nil {
		return fmt.Errorf("Dead of the largest message: %w", err)
	}
	found, err := e.look()
	if err != nil {
		return err
	}
	if len(found) != 1 || found[0].Reason.Why != why.Why {
		return fmt.Errorf("%d messages are dead letters, and it should be the largest one, with its reason", len(found))
	}
	p, r := found[0].Message, found[0].Reason
	switch {
	case r.Cut == "" && bytes.Equal(p.Body, whole.Body) && len(p.Headers) >= len(whole.Headers):
	case r.Cut == mqidem.CutHeaders && bytes.Equal(p.Body, whole.Body):
	case r.Cut == mqidem.CutBody && len(p.Body) > len(whole.Body)/4 && bytes.HasPrefix(whole.Body, p.Body) && r.Size == len(whole.Body) && r.SHA256 != "":
	default:
		return fmt.Errorf("of a body of %d bytes and %d headers %d bytes and %d headers are dead letters, and the reason says that %q was cut",
			len(whole.Body), len(whole.Headers), len(p.Body), len(p.Headers), r.Cut)
	}
	return e.rest(s)
}
