package sqlstore

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe/internal/sqlkit"
	"github.com/retrysafe/retrysafe/stores/sqlstore/internal/table"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// silent is a database that does not answer for a while.
type silent struct {
	table.Backend
	healthy chan struct{}
}

func (f *silent) ReadTables(context.Context, table.ReadSize, func(context.Context, sqlkit.Execer) error) error {
	select {
	case <-f.healthy:
		return nil
	case <-time.After(6 * time.Second): // LockWait and slack
		return errors.New("no answer in time")
	}
}

// TestChargesOfCallersThatLeft: while the database hangs, charges whose callers have left do not
// stay in the line, where later callers would wait for them.
func TestChargesOfCallersThatLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &silent{healthy: make(chan struct{})}
		s := &Store{db: &table.Database{Backend: f, LockWait: 5 * time.Second, Dialect: PostgreSQL, Clock: time.Now}}
		var all sync.WaitGroup
		for range 60 {
			for i := range 200 {
				all.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					defer cancel()
					id := table.RecordID{byte(i)}
					_ = s.chargeInBatch(ctx, &queuedCharge{id: id, req: storeapi.ChargeRequest{}, Ticket: table.Ticket{Done: make(chan struct{})}})
				})
			}
			time.Sleep(time.Second)
		}
		all.Wait()
		n := s.chargeQueues.reading.countWaiting()
		if n > 0 {
			t.Errorf("%d charges stay in line", n)
		}
		close(f.healthy)
		time.Sleep(time.Hour)
	})
}
