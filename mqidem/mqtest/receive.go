package mqtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe/mqidem"
	"github.com/retrysafe/retrysafe/outbox"
)

// Q1: a message arrives as it was published, with a source and a count.
func arrivesAsPublished(e *env) error {
	messages := []outbox.Message{
		{ID: "id-" + strings.Repeat("x", 100), Topic: e.Topic, Key: "a key", ContentType: "application/json", Payload: []byte(`{"n":1}`), Headers: map[string]string{"Trace": "a b", "empty": "", "umlaut": "ü"}},
		{ID: "bytes", Topic: e.Topic, Payload: []byte{0, 255, '\r', '\n', 128, 0}},
		{ID: "empty", Topic: e.Topic, Key: "a key"},
	}
	batch := make([]outbox.Outgoing, len(messages))
	for i, m := range messages {
		batch[i] = outbox.Outgoing{Message: m, Added: time.Now(), Attempt: 1}
	}
	if err := e.publishBatch(batch); err != nil {
		return err
	}
	s, got := e.openSource(), map[string]*mqidem.Message{}
	for range messages {
		d, err := e.receiveNext(s)
		if err != nil {
			return err
		}
		got[d.Message().ID] = d.Message()
		if d.Message() != d.Message() { //nolint:staticcheck // two calls
			return errors.New("Message is another one at the second call")
		}
		if err := d.Ack(e.ctx); err != nil {
			return fmt.Errorf("Ack: %w", err)
		}
	}
	for _, want := range messages {
		m := got[want.ID]
		switch {
		case m == nil:
			return fmt.Errorf("no message has the id %q", want.ID)
		case !bytes.Equal(m.Body, want.Payload):
			return fmt.Errorf("the body came as %q, and was %q", m.Body, want.Payload)
		case m.ContentType != want.ContentType:
			return fmt.Errorf("the content type came as %q, and was %q", m.ContentType, want.ContentType)
		case m.Key != want.Key:
			return fmt.Errorf("the key came as %q, and was %q", m.Key, want.Key)
		case m.Source == "":
			return errors.New("the message does not say where it came from")
		case m.Deliveries != 1:
			return fmt.Errorf("a message that came for the first time has Deliveries %d", m.Deliveries)
		}
		for name, value := range want.Headers {
			if v, ok := m.Headers[name]; !ok || string(v) != value {
				return fmt.Errorf("the header %s came as %q (%v), and was %q", name, v, ok, value)
			}
		}
	}
	return nil
}

// Q2: an acked message is not redelivered, to no consumer.
func ackedIsGone(e *env) error {
	ids, err := e.publish("done", "held")
	if err != nil {
		return err
	}
	a := e.openSource()
	if err := e.ackAll(a, ids[0]); err != nil {
		return err
	}
	if _, err := e.receiveID(a, ids[1]); err != nil {
		return err
	}
	if err := a.Close(); err != nil {
		return fmt.Errorf("Close: %w", err)
	}
	return e.expectOnly(e.openSource(), ids[1])
}

// Q3: if a source is closed, another one receives its unsettled messages. They say that they were
// delivered before, if the broker reports it.
func unsettledIsRedelivered(e *env) error {
	ids, err := e.publish("one", "two", "three")
	if err != nil {
		return err
	}
	a := e.openSource()
	if _, err := e.receiveID(a, ids[0]); err != nil {
		return err
	}
	if err := a.Close(); err != nil {
		return fmt.Errorf("Close: %w", err)
	}
	return e.expectOnly(e.openSource(), ids...)
}

// Q7: Receive ends with its context, and loses no message.
func endedContextStopsReceive(e *env) error {
	s := e.openSource()
	gone, cancel := context.WithCancel(e.ctx)
	cancel()
	if d, err := s.Receive(gone); !errors.Is(err, context.Canceled) || d != nil {
		return fmt.Errorf("Receive with a context that has ended returned %v, %v", d, err)
	}
	const n = 40
	var bodies []string
	for i := range n {
		bodies = append(bodies, fmt.Sprint("message ", i))
	}
	published := make(chan error, 1)
	go func() {
		_, err := e.publish(bodies...)
		published <- err
	}()
	// Contexts that end while messages arrive.
	seen := map[string]bool{}
	for i := 0; len(seen) < n && e.ctx.Err() == nil; i++ {
		short, cancel := context.WithTimeout(e.ctx, time.Duration(i%7)*time.Millisecond)
		d, err := s.Receive(short)
		cancel()
		switch {
		case err == nil:
			seen[d.Message().ID] = true
			if err := d.Ack(e.ctx); err != nil {
				return fmt.Errorf("Ack: %w", err)
			}
		case !errors.Is(err, context.DeadlineExceeded):
			return fmt.Errorf("Receive whose context ended: %w", err)
		}
	}
	if err := <-published; err != nil {
		return err
	}
	if len(seen) < n {
		return fmt.Errorf("%d of %d messages did not come, behind calls of Receive whose contexts ended", n-len(seen), n)
	}
	return e.expectOnly(s)
}

// Q8: Close ends Receive. Settling a delivery after Close fails at once. A second Close returns
// nil.
func closeEndsReceive(e *env) error {
	if _, err := e.publish("held"); err != nil {
		return err
	}
	s := e.openSource()
	d, err := e.receiveNext(s)
	if err != nil {
		return err
	}
	waiting := make(chan error, 1)
	go func() {
		_, err := s.Receive(e.ctx)
		waiting <- err
	}()
	if err := s.Close(); err != nil {
		return fmt.Errorf("Close: %w", err)
	}
	if err := <-waiting; !errors.Is(err, mqidem.ErrSourceClosed) {
		return fmt.Errorf("Close left a Receive behind that returned %v; it has to wrap ErrSourceClosed", err)
	}
	if _, err := s.Receive(e.ctx); !errors.Is(err, mqidem.ErrSourceClosed) {
		return fmt.Errorf("Receive of a closed source returned %v", err)
	}
	for name, settle := range map[string]func() error{
		"Ack":   func() error { return d.Ack(e.ctx) },
		"Retry": func() error { return d.Retry(e.ctx, 0) },
		"Dead":  func() error { return d.Dead(e.ctx, mqidem.Reason{Why: mqidem.DeadPoison}) },
	} {
		if err := settle(); err == nil {
			return fmt.Errorf("%s behind Close says that it has settled a delivery", name)
		}
	}
	if err := s.Close(); err != nil {
		return fmt.Errorf("a second Close: %w", err)
	}
	return nil
}

// Q9: each message reaches exactly one of several consumers.
func eachReachesOneConsumer(e *env) error {
	const n = 60
	var bodies []string
	for i := range n {
		bodies = append(bodies, fmt.Sprint("message ", i))
	}
	sources := []Source{e.openSource(), e.openSource()}
	ids, err := e.publish(bodies...)
	if err != nil {
		return err
	}
	ctx, through := context.WithCancel(e.ctx)
	defer through()
	var mu sync.Mutex
	seen := map[string]int{}
	var failed error
	var all sync.WaitGroup
	for i := range 6 {
		s := sources[i%len(sources)]
		all.Go(func() {
			for {
				d, err := s.Receive(ctx)
				if err == nil {
					err = d.Ack(e.ctx)
				}
				mu.Lock()
				switch {
				case err == nil:
					seen[d.Message().ID]++
					if len(seen) == n {
						through()
					}
				case ctx.Err() == nil:
					failed = err
					through()
				}
				mu.Unlock()
				if err != nil {
					return
				}
			}
		})
	}
	all.Wait()
	if failed != nil {
		return fmt.Errorf("Receive and Ack: %w", failed)
	}
	for _, id := range ids {
		if seen[id] != 1 {
			return fmt.Errorf("one of %d messages came %d times", n, seen[id])
		}
	}
	return nil
}

// Q12: large bodies and long ids work, also to the dead-letter queue and back.
func largeBodiesWork(e *env) error {
	body := bytes.Repeat([]byte("0123456789abcdef"), e.Large/16)
	id := strings.Repeat("i", 10_000)
	if _, err := e.publish("before"); err != nil {
		return err
	}
	s := e.openSource()
	d, err := e.receiveNext(s)
	if err != nil {
		return err
	}
	m := d.Message().Clone()
	m.ID, m.Body = id, body
	if err := e.DeadLetters.Send(e.ctx, m); err != nil {
		return fmt.Errorf("Send of %d bytes with an id of %d: %w", len(body), len(id), err)
	}
	if err := d.Ack(e.ctx); err != nil {
		return fmt.Errorf("Ack: %w", err)
	}
	if d, err = e.receiveID(s, id); err != nil {
		return err
	}
	if !bytes.Equal(d.Message().Body, body) {
		return fmt.Errorf("a body of %d bytes came with %d, or others", len(body), len(d.Message().Body))
	}
	if err := d.Dead(e.ctx, mqidem.Reason{Why: mqidem.DeadTooLarge, Source: d.Message().Source}); err != nil {
		return fmt.Errorf("Dead of %d bytes: %w", len(body), err)
	}
	found, err := e.listDeadLetters()
	if err != nil {
		return err
	}
	if len(found) != 1 || found[0].Message.ID != id || !bytes.Equal(found[0].Message.Body, body) {
		return fmt.Errorf("a message of %d bytes is not a dead letter as it was", len(body))
	}
	return nil
}
