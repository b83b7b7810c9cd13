package brokers_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/mqidem"
)

// journal is a file in which all processes of a run write what they do with each message. It shows
// what happened to a missing message.
type journal struct{ f *os.File }

func openJournal(path string) (*journal, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	return &journal{f}, nil
}

// writeLine writes a line by one call, so that it survives the process and is complete.
func (j *journal) writeLine(id, format string, args ...any) {
	text := strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", " ")
	_, _ = fmt.Fprintf(j.f, "%s %s pid %d %s\n", id, time.Now().Format("15:04:05.000"), os.Getpid(), text)
}

// traced is a source that records what is done with its deliveries.
type traced struct {
	source
	j *journal
}

func (s traced) Receive(ctx context.Context) (mqidem.Delivery, error) {
	d, err := s.source.Receive(ctx)
	if err != nil {
		return nil, err
	}
	if _, lost := d.(mqidem.Lost); lost {
		s.j.writeLine("", "lost")
		return d, nil
	}
	s.j.writeLine(d.Message().ID, "received, delivery %d", d.Message().Deliveries)
	return tracedDelivery{d, s.j}, nil
}

// HoldsFor implements mqidem.Holder. It returns the source's time, or zero if the source is no
// Holder.
func (s traced) HoldsFor(ctx context.Context) (time.Duration, error) {
	if h, ok := s.source.(mqidem.Holder); ok {
		return h.HoldsFor(ctx)
	}
	return 0, nil
}

type tracedDelivery struct {
	mqidem.Delivery
	j *journal
}

func (d tracedDelivery) traceSettle(word string, f func() error) error {
	d.j.writeLine(d.Message().ID, "%s …", word)
	err := f()
	d.j.writeLine(d.Message().ID, "%s: %v", word, err)
	return err
}

func (d tracedDelivery) Ack(ctx context.Context) error {
	return d.traceSettle("ack", func() error { return d.Delivery.Ack(ctx) })
}

func (d tracedDelivery) Retry(ctx context.Context, after time.Duration) error {
	return d.traceSettle(fmt.Sprint("retry after ", after), func() error { return d.Delivery.Retry(ctx, after) })
}

func (d tracedDelivery) Dead(ctx context.Context, why mqidem.Reason) error {
	return d.traceSettle("dead by "+why.Why, func() error { return d.Delivery.Dead(ctx, why) })
}

// stall decides when to print the state because nothing has moved for a while.
type stall struct {
	since time.Time
	at    int
	told  bool
}

// quietFor is how long nothing must move before the state of missing messages is printed. A handler
// may outlive its lease in that time.
const quietFor = 40 * time.Second

// noteProgress gets the current number of messages, and reports whether to print the state.
func (st *stall) noteProgress(n int) (tell bool) {
	if n != st.at || st.since.IsZero() {
		*st = stall{since: time.Now(), at: n}
	}
	if st.told || time.Since(st.since) < quietFor {
		return false
	}
	st.told = true
	return true
}

// mostShown is the number of messages whose whole history is printed.
const mostShown = 5

// printState prints the records of messages, what the consumers did with them, and what the broker
// reports.
func (s *soak) printState(ctx context.Context, t *testing.T, missing []string) {
	t.Helper()
	slices.Sort(missing)
	t.Logf("nothing moves; %d messages are missing: %q", len(missing), missing)
	if s.broker.state != nil {
		t.Logf("the broker: %s", s.broker.state(ctx))
	}
	counts.Lock()
	t.Logf("killed: %v", s.pids)
	counts.Unlock()
	story, err := os.ReadFile(s.journal.f.Name())
	if err != nil {
		t.Logf("journal: %v", err)
	}
	lines := strings.Split(string(story), "\n")
	for i, line := range slices.Backward(lines) {
		if line != "" {
			t.Logf("the last of %d lines: %s", i+1, line)
			break
		}
	}
	for _, id := range missing[:min(len(missing), mostShown)] {
		t.Logf("%s: %s", id, s.describeRecord(ctx, id))
		for _, line := range lines {
			if strings.HasPrefix(line, id+" ") {
				t.Log("    " + line)
			}
		}
	}
}

// describeRecord returns what the store knows of a message.
func (s *soak) describeRecord(ctx context.Context, id string) string {
	r, err := s.engine.Layer(s.layer).Lookup(ctx, retrysafe.Key{Operation: "effect", ID: retrysafe.KeyPart(id)})
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("record %v by %x, lease left %v, attempt %d, fence %v, cause %q, last error %q, created %v, updated %v, expires %v, now %v",
		r.State, r.Owner, r.LeaseLeft, r.Attempt, r.Fence, r.Cause, r.LastError, clockText(r.Created), clockText(r.Updated), clockText(r.Expires), clockText(r.Now))
}

func clockText(t time.Time) string { return t.Format("15:04:05.000") }
