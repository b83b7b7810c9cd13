package sqlstore

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe/internal/sqlkit"
	"github.com/retrysafe/retrysafe/storeapi"
)

// hanging is a database that does not answer for a while.
type hanging struct {
	backend
	healthy chan struct{}
}

func (f *hanging) see(context.Context, []*sight) error {
	select {
	case <-f.healthy:
		<-time.After(5 * time.Millisecond) // a batch
		return nil
	case <-time.After(6 * time.Second): // LockWait and slack
		return errNoAnswerInTime
	}
}

func (f *hanging) read(context.Context, span, func(context.Context, sqlkit.Execer) error) error {
	select {
	case <-f.healthy:
		return nil
	case <-time.After(6 * time.Second):
		return errNoAnswerInTime
	}
}

// TestLookupsOfCallersThatLeft: while the database hangs, lookups whose callers have left do not
// stay in the line, where later callers would wait for them.
func TestLookupsOfCallersThatLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &hanging{healthy: make(chan struct{})}
		s := &Store{backend: f, db: &database{lockWait: 5 * time.Second, clock: time.Now}}
		s.looks = newLooks(s.db, f)
		var all sync.WaitGroup
		for range 60 { // a minute, 200 calls a second, each of which waits for a second
			for i := range 200 {
				all.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					defer cancel()
					_, _ = s.looks.at(ctx, recordID{byte(i)})
				})
			}
			time.Sleep(time.Second)
		}
		all.Wait()
		s.looks.mu.Lock()
		n := len(s.looks.waiting)
		s.looks.mu.Unlock()
		if n > 0 {
			t.Errorf("%d looks stay in line", n)
		}
		close(f.healthy)
		_, err := s.looks.at(t.Context(), recordID{1})
		if err != nil {
			t.Errorf("after the outage: %v", err)
		}
		time.Sleep(time.Hour)
	})
}

// TestChargesOfCallersThatLeft: the same for charges.
func TestChargesOfCallersThatLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &hanging{healthy: make(chan struct{})}
		s := &Store{backend: f, db: &database{lockWait: 5 * time.Second, dialect: PostgreSQL, clock: time.Now}}
		var all sync.WaitGroup
		for range 60 {
			for i := range 200 {
				all.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					defer cancel()
					id := recordID{byte(i)}
					_ = s.chargeTogether(ctx, &charging{id: id, req: storeapi.ChargeRequest{}, done: make(chan struct{})})
				})
			}
			time.Sleep(time.Second)
		}
		all.Wait()
		n := s.charges.reading.len()
		if n > 0 {
			t.Errorf("%d charges stay in line", n)
		}
		close(f.healthy)
		time.Sleep(time.Hour)
	})
}
