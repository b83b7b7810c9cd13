package mqtest

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/retrysafe/retrysafe/mqidem"
)

// replaceMessage puts a message into the queue that no outbox publisher writes, and receives it.
func (e *env) replaceMessage(change func(*mqidem.Message)) (mqidem.Source, mqidem.Delivery, error) {
	if _, err := e.publish("before"); err != nil {
		return nil, nil, err
	}
	s := e.openSource()
	d, err := e.receiveNext(s)
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
	d, err = e.receiveNext(s)
	return s, d, err
}

// Q13: a message without an id still has none after it was dead-lettered and redriven. With an id
// it would be another message.
func withoutID(e *env) error {
	s, d, err := e.replaceMessage(func(m *mqidem.Message) { m.ID = "" })
	for round := 1; err == nil; round++ {
		if m := d.Message(); m.ID != "" || string(m.Body) != "before" {
			return fmt.Errorf("round %d: a message without an id came with the id %q and the body %q", round, m.ID, m.Body)
		}
		if round == 3 {
			return d.Ack(e.ctx)
		}
		if err := d.Dead(e.ctx, fullReason(d.Message())); err != nil {
			return fmt.Errorf("Dead: %w", err)
		}
		found, err := e.listDeadLetters()
		if err != nil {
			return err
		}
		if len(found) != round || found[0].Message.ID != "" {
			return fmt.Errorf("round %d: %d messages are dead letters, the first with an id: %v", round, len(found), len(found) > 0 && found[0].Message.ID != "")
		}
		if err := e.DeadLetters.Send(e.ctx, found[0].Message); err != nil {
			return fmt.Errorf("Send: %w", err)
		}
		if d, err = e.receiveNext(s); err != nil {
			return err
		}
	}
	return err
}

// Q14: the largest message can be dead-lettered with its reason. If a part does not fit, it is left
// out, and the reason says so.
func largestIsDeadLettered(e *env) error {
	var whole mqidem.Message
	s, d, err := e.replaceMessage(func(m *mqidem.Message) {
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
	why := fullReason(d.Message())
	why.Error = strings.Repeat("e", 1000)
	if err := d.Dead(e.ctx, why); err != nil {
		return fmt.Errorf("Dead of the largest message: %w", err)
	}
	found, err := e.listDeadLetters()
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
	return e.expectOnly(s)
}

// Q15: a broker that has lost the place of its consumers either does not deliver again what they
// have settled, or the source says how long it may do so (mqidem.Holder), so that Consume can ask
// for records that live as long. What was not settled is delivered.
func lostPlace(e *env) error {
	if e.LosePlace == nil {
		return nil
	}
	ids, err := e.publish("done", "done too", "held")
	if err != nil {
		return err
	}
	s := e.openSource()
	if err := e.ackAll(s, ids[:2]...); err != nil {
		return err
	}
	if _, err := e.receiveID(s, ids[2]); err != nil {
		return err
	}
	if err := s.Close(); err != nil {
		return fmt.Errorf("Close: %w", err)
	}
	e.LosePlace(e.t)
	last, err := e.publish("the last one")
	if err != nil {
		return err
	}
	s = e.openSource()
	seen := map[string]bool{}
	for !seen[last[0]] || !seen[ids[2]] {
		d, err := e.receiveNext(s)
		if err != nil {
			return fmt.Errorf("after the place was lost: %w", err)
		}
		seen[d.Message().ID] = true
		if err := d.Ack(e.ctx); err != nil {
			return fmt.Errorf("Ack: %w", err)
		}
	}
	if !seen[ids[0]] && !seen[ids[1]] {
		return nil
	}
	holder, ok := s.(mqidem.Holder)
	if !ok {
		return errors.New("messages that were settled came again, and the source does not say how long it holds them: it is no mqidem.Holder")
	}
	if holds, err := holder.HoldsFor(e.ctx); err != nil || holds <= 0 {
		return fmt.Errorf("messages that were settled came again, and the source says that it holds them for %v (%w)", holds, err)
	}
	return nil
}

// Q16: a message that the broker drops after it was delivered and before it was settled is reported
// as lost, unless the broker does not tell. The source then goes on.
func trimmedIsReportedLost(e *env) error {
	if e.Trim == nil {
		return nil
	}
	ids, err := e.publish("held")
	if err != nil {
		return err
	}
	s := e.openSource()
	if _, err := e.receiveID(s, ids[0]); err != nil {
		return err
	}
	if err := s.Close(); err != nil {
		return fmt.Errorf("Close: %w", err)
	}
	e.Trim(e.t)
	s = e.openSource()
	if e.TrimIsSilent {
		return e.expectOnly(s)
	}
	d, err := e.receiveNext(s)
	if err != nil {
		return fmt.Errorf("the report of a message that the broker has dropped: %w", err)
	}
	lost, ok := d.(mqidem.Lost)
	switch {
	case !ok:
		return errors.New("a message that the broker has dropped came, and should be reported as lost (mqidem.Lost)")
	case lost.Lost() == nil:
		return errors.New("Lost returned no reason")
	case d.Message() == nil || d.Message().Source == "":
		return errors.New("the message that is lost does not say where it came from")
	}
	for what, err := range map[string]error{"Ack": d.Ack(e.ctx), "Retry": d.Retry(e.ctx, 0), "Dead": d.Dead(e.ctx, fullReason(d.Message()))} {
		if err != nil {
			return fmt.Errorf("%s of a message that is lost: %w", what, err)
		}
	}
	return e.expectOnly(s)
}
