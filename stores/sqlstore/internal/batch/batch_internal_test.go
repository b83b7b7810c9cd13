package batch

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/sqlkit"
	"github.com/retrysafe/retrysafe/stores/sqlstore/internal/table"
)

// TestBatchLimits: a transaction has at most one change of a key, at most 128 changes and 4 MiB,
// and at least one change. The rest keeps its order.
func TestBatchLimits(t *testing.T) {
	t.Parallel()
	inFlight := make(map[table.RecordID]struct{})
	q := changeLine{}
	add := func(id byte, size int) {
		q.waiting = append(q.waiting, &table.Change{Call: &table.Call{ID: table.RecordID{id}, Size: size}})
	}
	add(1, table.MostBytes+1)
	add(2, 1)
	add(1, 1)
	add(3, table.MostBytes)
	ids := func() (ids []byte) {
		for _, c := range q.takeBatch(inFlight) {
			ids = append(ids, c.ID[0])
		}
		return ids
	}
	assert.Equal(t, string(ids()), "\x01", "the first batch: a change that is too large is made by itself")
	assert.Equal(t, string(ids()), "\x02", "the second: without the key that is under way, and with what fits")
	clear(inFlight)
	assert.Equal(t, string(ids()), "\x01", "the third: in the order in which they came")
	clear(inFlight)
	assert.Equal(t, string(ids()), "\x03", "the fourth")
	assert.Equal(t, len(q.waiting), 0, "what is left")
	clear(inFlight)
	for i := range 2 * table.MostTogether {
		q.waiting = append(q.waiting, &table.Change{Call: &table.Call{ID: table.RecordID{byte(i), byte(i >> 8)}}})
	}
	assert.Equal(t, len(q.takeBatch(inFlight)), table.MostTogether, "a batch of many")
	assert.Equal(t, len(q.waiting), table.MostTogether, "what is left of many")
}

// failing is a database in which grouped reads fail, and each single read takes a second.
type failing struct {
	table.Backend
	now, most atomic.Int32
	take      func() // the time of a read
}

func (f *failing) LookUpMany(context.Context, []*table.Lookup) error {
	return errors.New("a row of somebody else")
}

func (f *failing) ReadTables(context.Context, table.ReadSize, func(context.Context, sqlkit.Execer) error) error {
	n := f.now.Add(1)
	defer f.now.Add(-1)
	if n > f.most.Load() {
		f.most.Store(n)
	}
	f.take()
	return nil
}

// TestLooksAlone: after a grouped read has failed, only a few callers read alone at one time, and
// all of them do.
func TestLooksAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &failing{take: func() { time.Sleep(time.Second) }}
		q := newLookupQueue(&table.Database{Backend: f, LockWait: time.Hour, Clock: time.Now})
		var all sync.WaitGroup
		for i := range 40 {
			all.Go(func() {
				if _, err := q.lookUpTogether(t.Context(), table.RecordID{byte(i)}); err != nil {
					t.Errorf("a look: %v", err)
				}
			})
		}
		all.Wait()
		assert.Equal(t, f.most.Load(), int32(maxLookupsAlone), "looks at one time")
	})
}

// hanging is a database that does not answer for a while.
type hanging struct {
	table.Backend
	healthy chan struct{}
}

func (f *hanging) LookUpMany(context.Context, []*table.Lookup) error {
	select {
	case <-f.healthy:
		<-time.After(5 * time.Millisecond) // a batch
		return nil
	case <-time.After(6 * time.Second): // LockWait and slack
		return errNoAnswerInTime
	}
}

func (f *hanging) ReadTables(context.Context, table.ReadSize, func(context.Context, sqlkit.Execer) error) error {
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
		q := newLookupQueue(&table.Database{Backend: f, LockWait: 5 * time.Second, Clock: time.Now})
		var all sync.WaitGroup
		for range 60 { // a minute, 200 calls a second, each of which waits for a second
			for i := range 200 {
				all.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					defer cancel()
					_, _ = q.lookUpTogether(ctx, table.RecordID{byte(i)})
				})
			}
			time.Sleep(time.Second)
		}
		all.Wait()
		q.mu.Lock()
		n := len(q.waiting)
		q.mu.Unlock()
		if n > 0 {
			t.Errorf("%d looks stay in line", n)
		}
		close(f.healthy)
		_, err := q.lookUpTogether(t.Context(), table.RecordID{1})
		if err != nil {
			t.Errorf("after the outage: %v", err)
		}
		time.Sleep(time.Hour)
	})
}
