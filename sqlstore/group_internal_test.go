package sqlstore

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
)

// TestBatchLimits: a transaction has at most one change of a key, at most 128 changes and 4 MiB,
// and at least one change. The rest keeps its order.
func TestBatchLimits(t *testing.T) {
	t.Parallel()
	inFlight := make(map[recordID]struct{})
	q := queue{}
	add := func(id byte, size int) { q.waiting = append(q.waiting, &change{id: recordID{id}, size: size}) }
	add(1, mostBytes+1)
	add(2, 1)
	add(1, 1)
	add(3, mostBytes)
	ids := func() (ids []byte) {
		for _, c := range q.take(inFlight) {
			ids = append(ids, c.id[0])
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
	for i := range 2 * mostTogether {
		q.waiting = append(q.waiting, &change{id: recordID{byte(i), byte(i >> 8)}})
	}
	assert.Equal(t, len(q.take(inFlight)), mostTogether, "a batch of many")
	assert.Equal(t, len(q.waiting), mostTogether, "what is left of many")
}

// failing is a database in which grouped reads fail, and each single read takes a second.
type failing struct {
	backend
	now, most atomic.Int32
	take      func()
}

func (f *failing) see(context.Context, []*sight) error { return errors.New("a row of somebody else") }

func (f *failing) read(context.Context, span, func(context.Context, sqlkit.Execer) error) error {
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
		s := &Store{backend: f, db: &database{lockWait: time.Hour, clock: time.Now}}
		s.looks = newLooks(s.db, f)
		var all sync.WaitGroup
		for i := range 40 {
			all.Go(func() {
				if _, err := s.looks.at(t.Context(), recordID{byte(i)}); err != nil {
					t.Errorf("a look: %v", err)
				}
			})
		}
		all.Wait()
		assert.Equal(t, f.most.Load(), int32(lonely), "looks at one time")
	})
}
