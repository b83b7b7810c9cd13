package sqlstore

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/retrysafe/retrysafe"
)

// charging is one charge and its caller.
type charging struct {
	id    recordID
	req   retrysafe.ChargeRequest
	state atomic.Uint32 // as that of a change
	done  chan struct{}

	got retrysafe.Charged // of this and of err, the caller reads nothing before done is closed
	err error
}

// charges makes those that come at once together. They are read first, without any lock: what is
// refused is told so, and a flood of it holds up nobody and waits for nobody. The rest is one write
// for each tenant, since the counts of a tenant are one row and each commit waits for the disk.
type charges struct{ reading, writing lines }

// lines are charges that wait for their turn. While one batch of a line is under way, the next
// gathers.
type lines struct {
	mu      sync.Mutex
	waiting map[recordID][]*charging // there is a line while somebody works on it
}

// join puts charges into a line. Where nobody works on that, a goroutine does, until it is empty.
func (l *lines) join(line recordID, of []*charging, batch func(recordID, []*charging)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiting == nil {
		l.waiting = make(map[recordID][]*charging)
	}
	waiting, busy := l.waiting[line]
	l.waiting[line] = append(waiting, of...)
	if !busy {
		go func() {
			for of := l.next(line); of != nil; of = l.next(line) {
				batch(line, of)
				runtime.Gosched() // those who were answered may have the next charge at hand
			}
		}()
	}
}

// next takes a batch from a line; nil: it is empty.
func (l *lines) next(line recordID) []*charging {
	l.mu.Lock()
	defer l.mu.Unlock()
	waiting := l.waiting[line]
	if len(waiting) == 0 {
		delete(l.waiting, line)
		return nil
	}
	n := min(len(waiting), mostTogether)
	l.waiting[line] = waiting[n:]
	return waiting[:n:n]
}

// len is how many charges wait.
func (l *lines) len() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, of := range l.waiting {
		n += len(of)
	}
	return n
}

// writeLines is how many transactions write at one time on a server. Each takes the rows of its
// tenants in one order, so that those of several processes wait for one another and never each for
// the other.
const writeLines = 4

// readLines is how many lines are read at one time: one for all would make many tenants wait for
// one another.
const readLines = 8

// chargeTogether makes a charge with others.
func (s *Store) chargeTogether(ctx context.Context, c *charging) error {
	wait, cancel := s.patience(ctx, time.Time{})
	defer cancel()
	s.charges.reading.join(recordID{c.id[0] % readLines}, []*charging{c}, s.readCharges)
	select {
	case <-c.done:
		return c.err
	case <-wait.Done():
	}
	if c.state.CompareAndSwap(0, left) {
		return &lockError{ended: wait.caller.Err(), after: wait.limit, text: s.waits}
	}
	select { // it has begun, and may count
	case <-c.done:
		return c.err
	case <-wait.caller.Done():
		return &unknownError{wait.caller.Err()}
	}
}

// readCharges tells those who are refused, and passes the rest on to be written. On SQLite, which
// has one writer, all tenants are one line.
func (s *Store) readCharges(_ recordID, batch []*charging) {
	tenants := byTenant(slices.DeleteFunc(batch, func(c *charging) bool { return c.state.Load() == left }))
	writes, failed := make([]bool, len(tenants)), make([]error, len(tenants))
	err := s.backend.read(context.Background(), brief, func(ctx context.Context, db execer) error {
		for i, of := range tenants {
			u, err := s.loadUsage(ctx, db, s.queries.loadUsage, of[0].id)
			var state stateError
			if err != nil && !errors.As(err, &state) {
				// as long as the database answers, the others are read
				return err
			}
			failed[i] = err
			_, writes[i] = decide(&u, of)
		}
		return nil
	})
	for i, of := range tenants {
		var line recordID
		if s.dialect != SQLite {
			line = recordID{of[0].id[0] % writeLines}
		}
		if err == nil && failed[i] == nil && writes[i] {
			s.charges.writing.join(line, of, s.writeCharges)
			continue
		}
		endCharges(of, errors.Join(err, failed[i]))
	}
}

// writeCharges makes charges in one transaction. Where those of one tenant fail, the others are
// made without them.
func (s *Store) writeCharges(line recordID, batch []*charging) {
	for tenants := byTenant(batch); len(tenants) > 0; {
		failed := -1
		err := s.backend.write(context.Background(), line, time.Time{}, func(ctx context.Context, w execer) (commit bool, err error) {
			failed = -1
			for i, of := range tenants {
				tenants[i] = slices.DeleteFunc(of, func(c *charging) bool { return !c.begin() })
				wrote, err := s.chargeTenant(ctx, w, tenants[i])
				if err != nil {
					failed = i
					return false, err
				}
				commit = commit || wrote
			}
			return commit, nil
		})
		if failed < 0 {
			for _, of := range tenants {
				endCharges(of, err)
			}
			return
		}
		endCharges(tenants[failed], err)
		tenants = slices.Delete(tenants, failed, failed+1)
	}
}

// begin tells whether the charge is to be made: its caller has not gone.
func (c *charging) begin() bool {
	return c.state.CompareAndSwap(0, begun) || c.state.Load() == begun
}

// endCharges tells the callers.
func endCharges(of []*charging, err error) {
	for _, c := range of {
		c.err = err
		close(c.done)
	}
}

// byTenant sorts charges: those of a tenant come together, in the order in which they came.
func byTenant(batch []*charging) (tenants [][]*charging) {
	slices.SortStableFunc(batch, func(a, b *charging) int { return bytes.Compare(a.id[:], b.id[:]) })
	for len(batch) > 0 {
		n := 1
		for n < len(batch) && batch[n].id == batch[0].id {
			n++
		}
		tenants, batch = append(tenants, batch[:n:n]), batch[n:]
	}
	return tenants
}
