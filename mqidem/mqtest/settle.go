package mqtest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/retrysafe/retrysafe/mqidem"
	"github.com/retrysafe/retrysafe/outbox"
)

// Q4: Retry redelivers the message unchanged, not before its time. Other messages pass it
// meanwhile, unless the broker keeps the order.
func retryComesLater(e *env) error {
	s, delay := e.openSource(), e.Delay
	err := retryOnce(e, s, delay)
	// A machine may be too slow for a short delay, but not for one of many seconds.
	for ; errors.Is(err, errPassedByNone) && 2*delay <= e.Patience/8; err = retryOnce(e, s, delay) {
		delay *= 2
	}
	if err != nil {
		return err
	}
	if err := e.expectOnly(s); err != nil {
		return err
	}
	return retryDoesNotWait(e, s)
}

// errPassedByNone means that a later try was due before the next message came. Either the machine
// is slow, or the messages after a later try wait for it.
var errPassedByNone = errors.New("while a message waited for its later try, the next one did not come")

// retryOnce asks for one later try, publishes another message meanwhile, and receives both.
func retryOnce(e *env, s mqidem.Source, delay time.Duration) error {
	again := rand.Text() // a broker may drop an id that it has seen
	if err := e.publishBatch([]outbox.Outgoing{{Message: outbox.Message{
		ID: again, Topic: e.Topic, Key: "k", ContentType: "text/plain", Payload: []byte("again"), Headers: map[string]string{"trace": "t"},
	}, Attempt: 1}}); err != nil {
		return err
	}
	d, err := e.receiveID(s, again)
	if err != nil {
		return err
	}
	first := d.Message()
	asked := time.Now()
	if err := d.Retry(e.ctx, delay); err != nil {
		return fmt.Errorf("Retry: %w", err)
	}
	others, err := e.publish("meanwhile")
	if err != nil {
		return err
	}
	if d, err = e.receiveNext(s); err != nil {
		return err
	}
	order, tooSlow := []string{others[0], again}, error(nil)
	if earliest := d.Message().ID == again; earliest || e.Ordered {
		order = []string{again, others[0]}
		if !e.Ordered {
			tooSlow = errPassedByNone
		}
	}
	for i, id := range order {
		if i > 0 {
			if d, err = e.receiveNext(s); err != nil {
				return err
			}
		}
		m := d.Message()
		if m.ID != id {
			return fmt.Errorf("received another message (%.60q) than the one that should be there", m.Body)
		}
		if id == again {
			if err := checkRedelivered(first, m, asked, delay); err != nil {
				return err
			}
		}
		if err := d.Ack(e.ctx); err != nil {
			return fmt.Errorf("Ack: %w", err)
		}
	}
	return tooSlow
}

// checkRedelivered checks a message that is redelivered after Retry with this delay.
func checkRedelivered(first, m *mqidem.Message, asked time.Time, delay time.Duration) error {
	// A broker's clock may be slightly ahead.
	if took := time.Since(asked); took < delay*9/10 {
		return fmt.Errorf("the message came again %v after Retry with %v", took, delay)
	}
	if m.Deliveries < 2 {
		return fmt.Errorf("a message that came again has Deliveries %d", m.Deliveries)
	}
	if string(m.Body) != "again" || m.Key != first.Key || m.ContentType != first.ContentType || m.Source != first.Source || m.Header("trace") != "t" {
		return errors.New("a message that came again is not as it was")
	}
	return nil
}

// retryDoesNotWait checks that Retry does not wait for a later try that is an hour away.
func retryDoesNotWait(e *env, s mqidem.Source) error {
	ids, err := e.publish("much later")
	if err != nil {
		return err
	}
	d, err := e.receiveID(s, ids[0])
	if err != nil {
		return err
	}
	if err := d.Retry(e.ctx, time.Hour); err != nil {
		return fmt.Errorf("Retry for an hour later, which may not wait for that: %w", err)
	}
	return nil
}

// fullReason returns a Reason with every field set.
func fullReason(m *mqidem.Message) mqidem.Reason {
	return mqidem.Reason{
		Why: mqidem.DeadTries, Error: "no stock of \"ö\"\n", Tries: 5, Consumer: "stock", Key: "app/mq//stock/another%00",
		Source: m.Source, At: time.Unix(1700000000, 0).UTC(), Until: time.Unix(1800000000, 5000).UTC(), Redrives: 2,
	}
}

// Q5: a dead letter has its reason unchanged, and is gone from the queue.
func deadLetterKeepsReason(e *env) error {
	if err := e.publishBatch([]outbox.Outgoing{{Message: outbox.Message{
		ID: "bad", Topic: e.Topic, Key: "k", ContentType: "text/plain", Payload: []byte("bad"), Headers: map[string]string{"trace": "t"},
	}, Attempt: 1}}); err != nil {
		return err
	}
	s := e.openSource()
	d, err := e.receiveID(s, "bad")
	if err != nil {
		return err
	}
	m, why := d.Message(), fullReason(d.Message())
	if err := d.Dead(e.ctx, why); err != nil {
		return fmt.Errorf("Dead: %w", err)
	}
	found, err := e.listDeadLetters()
	if err != nil {
		return err
	}
	if len(found) != 1 {
		return fmt.Errorf("%d messages are dead letters, and it should be one", len(found))
	}
	p := found[0].Message
	switch {
	case found[0].Reason != why:
		return fmt.Errorf("the reason was %+v and is %+v", why, found[0].Reason)
	case p.ID != "bad" || string(p.Body) != "bad" || p.Key != "k" || p.ContentType != "text/plain" || p.Header("trace") != "t":
		return fmt.Errorf("the dead letter is not as it was: body %q, key %q, type %q", p.Body, p.Key, p.ContentType)
	case p.Source != m.Source:
		return fmt.Errorf("the dead letter says that it came from %q; it was %q", p.Source, m.Source)
	case len(p.Headers[mqidem.HeaderDead]) > 0:
		return errors.New("the dead letter shows the header with its reason")
	}
	if err := s.Close(); err != nil {
		return fmt.Errorf("Close: %w", err)
	}
	return e.expectOnly(e.openSource())
}

// fillDeadLetters fills the dead-letter queue.
func (e *env) fillDeadLetters(bodies ...string) ([]string, error) {
	ids, err := e.publish(bodies...)
	if err != nil {
		return nil, err
	}
	s := e.openSource()
	for _, id := range ids {
		d, err := e.receiveID(s, id)
		if err != nil {
			return nil, err
		}
		if err := d.Dead(e.ctx, fullReason(d.Message())); err != nil {
			return nil, fmt.Errorf("Dead: %w", err)
		}
	}
	return ids, s.Close()
}

// Q6: a walk shows all dead letters, the oldest first. Kept ones stay and removed ones go. An error
// ends the walk and keeps the message.
func walkShowsAll(e *env) error {
	ids, err := e.fillDeadLetters("0", "1", "2", "3")
	if err != nil {
		return err
	}
	stop := errors.New("enough")
	steps := []struct {
		want   []string
		remove map[string]bool
		stop   string
	}{
		{ids, map[string]bool{ids[1]: true}, ""},
		{[]string{ids[0], ids[2], ids[3]}, map[string]bool{ids[0]: true}, ids[2]},
		{[]string{ids[2], ids[3]}, map[string]bool{ids[2]: true, ids[3]: true}, ""},
		{nil, nil, ""},
	}
	for i, step := range steps {
		seen := 0
		err := e.DeadLetters.Walk(e.ctx, func(_ context.Context, p *mqidem.DeadLetter) (mqidem.Verdict, error) {
			if seen >= len(step.want) || p.Message.ID != step.want[seen] {
				return mqidem.Keep, fmt.Errorf("walk %d shows message %q at place %d", i+1, p.Message.Body, seen+1)
			}
			seen++
			if p.Message.ID == step.stop {
				return mqidem.Remove, stop
			}
			if step.remove[p.Message.ID] {
				return mqidem.Remove, nil
			}
			return mqidem.Keep, nil
		})
		switch {
		case step.stop != "" && !errors.Is(err, stop):
			return fmt.Errorf("walk %d: an error of see came back as %v", i+1, err)
		case step.stop == "" && err != nil:
			return fmt.Errorf("walk %d: %w", i+1, err)
		case step.stop == "" && seen != len(step.want):
			return fmt.Errorf("walk %d shows %d messages, and %d are there", i+1, seen, len(step.want))
		}
	}
	return nil
}

// Q10: a delivery is settled once. Later calls return ErrSettled and change nothing.
func settledOnce(e *env) error {
	ids, err := e.publish("one", "two")
	if err != nil {
		return err
	}
	s := e.openSource()
	d, err := e.receiveID(s, ids[0])
	if err != nil {
		return err
	}
	if err := d.Ack(e.ctx); err != nil {
		return fmt.Errorf("Ack: %w", err)
	}
	for name, again := range map[string]func() error{
		"Ack":   func() error { return d.Ack(e.ctx) },
		"Retry": func() error { return d.Retry(e.ctx, 0) },
		"Dead":  func() error { return d.Dead(e.ctx, fullReason(d.Message())) },
	} {
		if err := again(); !errors.Is(err, mqidem.ErrSettled) {
			return fmt.Errorf("%s of a delivery that was acked returned %v; it has to wrap ErrSettled", name, err)
		}
	}
	if err := e.expectOnly(s, ids[1]); err != nil {
		return err
	}
	found, err := e.listDeadLetters()
	if err == nil && len(found) > 0 {
		err = errors.New("a delivery that was acked has become a dead letter afterwards")
	}
	return err
}

// Q11: Send publishes a dead letter to its source, under its id, any number of times.
func sendKeepsID(e *env) error {
	ids, err := e.fillDeadLetters("again")
	if err != nil {
		return err
	}
	s := e.openSource()
	for i := 1; i <= 2; i++ {
		found, err := e.listDeadLetters()
		if err != nil {
			return err
		}
		if len(found) != i {
			return fmt.Errorf("%d messages are dead letters, and it should be %d", len(found), i)
		}
		m := found[0].Message
		m.Headers[mqidem.HeaderRedrives] = []byte(strconv.Itoa(i))
		if err := e.DeadLetters.Send(e.ctx, m); err != nil {
			return fmt.Errorf("Send: %w", err)
		}
		d, err := e.receiveID(s, ids[0])
		if err != nil {
			return fmt.Errorf("round %d: %w", i, err)
		}
		if got := d.Message(); string(got.Body) != "again" || got.Header(mqidem.HeaderRedrives) != strconv.Itoa(i) || got.Source != m.Source || got.Deliveries != 1 {
			return fmt.Errorf("round %d: the message came with body %q, redrives %q, source %q and %d deliveries", i, got.Body, got.Header(mqidem.HeaderRedrives), got.Source, got.Deliveries)
		}
		if err := d.Dead(e.ctx, fullReason(d.Message())); err != nil {
			return fmt.Errorf("Dead: %w", err)
		}
	}
	return e.expectOnly(s)
}
