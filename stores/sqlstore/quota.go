package sqlstore

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe/internal/protocol"
	"github.com/retrysafe/retrysafe/internal/sqlkit"
	"github.com/retrysafe/retrysafe/stores/sqlstore/internal/table"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

var (
	_ storeapi.Limiter     = (*Store)(nil)
	_ storeapi.UsageReader = (*Store)(nil)
)

// Charge implements [storeapi.Limiter]. Each tenant has one row. Concurrent charges of a tenant
// share one write, unless [Options.NoGroupCommit] is set. A refused charge only reads, so a flood
// of them delays no other call. A charge that waited for the file in vain returns
// [storeapi.ErrTooLate].
func (s *Store) Charge(ctx context.Context, req storeapi.ChargeRequest) (storeapi.Charged, error) {
	charged, err := s.makeCharge(ctx, req)
	var lock *table.LockError
	if errors.As(err, &lock) {
		err = fmt.Errorf("%w: %w", storeapi.ErrTooLate, err)
	}
	return charged, err
}

func (s *Store) makeCharge(ctx context.Context, req storeapi.ChargeRequest) (charged storeapi.Charged, err error) {
	if err := s.checkCall(ctx); err != nil {
		return storeapi.Charged{}, err
	}
	if err := req.Validate(); err != nil {
		return storeapi.Charged{}, err
	}
	c := &queuedCharge{id: table.IDOf(protocol.UsageName(req.Namespace, req.Tenant)), req: req, Ticket: table.Ticket{Done: make(chan struct{})}}
	if s.grouped {
		err = s.chargeInBatch(ctx, c)
	} else {
		err = s.chargeAlone(ctx, c)
	}
	if err != nil {
		return storeapi.Charged{}, s.db.CallerError("count", err)
	}
	return c.got, nil
}

// Usage implements [storeapi.UsageReader]. It reads one row, and never waits for a writer.
func (s *Store) Usage(ctx context.Context, req storeapi.UsageRequest) (out storeapi.Usage, err error) {
	if err := s.checkCall(ctx); err != nil {
		return out, err
	}
	if err := req.Validate(); err != nil {
		return out, err
	}
	id := table.IDOf(protocol.UsageName(req.Namespace, req.Tenant))
	err = s.db.Backend.ReadTables(ctx, table.OneRow, func(ctx context.Context, db sqlkit.Execer) error {
		u, err := s.loadUsage(ctx, db, s.db.Statements.Load().LoadUsage, id)
		out = u.Report(u.now)
		return err
	})
	if err != nil {
		return storeapi.Usage{}, s.db.CallerError("read the counts", err)
	}
	return out, nil
}

// chargeAlone makes a charge in its own transaction, unless it is refused.
func (s *Store) chargeAlone(ctx context.Context, c *queuedCharge) error {
	of := []*queuedCharge{c}
	write := false
	err := s.db.Backend.ReadTables(ctx, table.OneRow, func(ctx context.Context, db sqlkit.Execer) error {
		u, err := s.loadUsage(ctx, db, s.db.Statements.Load().LoadUsage, c.id)
		_, write = decideCharges(&u, of)
		return err
	})
	if err != nil || !write {
		return err
	}
	return s.db.Backend.WriteTables(ctx, c.id, time.Time{}, func(ctx context.Context, w sqlkit.Execer) (bool, error) {
		return s.chargeTenant(ctx, w, of)
	})
}

// chargeTenant makes the charges of one tenant. It may be called again for the same charges; the
// last call counts.
func (s *Store) chargeTenant(ctx context.Context, w sqlkit.Execer, of []*queuedCharge) (wrote bool, err error) {
	for len(of) > 0 {
		u, err := s.loadUsage(ctx, w, s.db.Statements.Load().LockUsage, of[0].id)
		if err != nil {
			return false, err
		}
		counts, write := decideCharges(&u, of)
		if !write {
			return false, nil
		}
		if done, err := s.storeUsage(ctx, w, of[0].id, &of[0].req, &u, &counts); done || err != nil {
			return true, err
		}
	}
	return false, nil
}

// decideCharges applies the charges of one tenant to the loaded counts.
func decideCharges(u *usageRow, of []*queuedCharge) (counts protocol.Usage, write bool) {
	counts = u.Usage
	for _, c := range of {
		next, got, changed := protocol.Charge(counts, u.now, &c.req)
		c.got = got
		if changed {
			counts, write = next, true
		}
	}
	return counts, write
}

// usageRow is the input of a charge's decision.
type usageRow struct {
	protocol.Usage
	exists bool            // the row exists
	now    protocol.Micros // the store's clock
}

// loadUsage reads the counts, and checks in the same statement whether this build may use the
// tables.
func (s *Store) loadUsage(ctx context.Context, db sqlkit.Execer, query string, id table.RecordID) (u usageRow, err error) {
	var version int
	var counts []byte
	var now sql.NullInt64
	u.now = s.db.Clock().UnixMicro()
	err = db.QueryRowContext(ctx, query, id[:]).Scan(&version, &now, &counts)
	if err != nil || version != s.db.Statements.Load().SchemaVersion {
		return u, s.db.VersionError(version, err)
	}
	u.now, u.exists = s.db.ServerTime(now, u.now), counts != nil
	if u.Usage, err = protocol.ParseUsage(counts); err != nil {
		return u, table.StateError("sqlstore: " + err.Error())
	}
	return u, nil
}

// storeUsage replaces the loaded counts. It returns false if there was no row, and another call
// has inserted one meanwhile.
func (s *Store) storeUsage(ctx context.Context, db sqlkit.Execer, id table.RecordID, req *storeapi.ChargeRequest, was *usageRow, u *protocol.Usage) (done bool, err error) {
	if u.Empty() {
		_, err := db.ExecContext(ctx, s.db.Statements.Load().DeleteUsage, id[:])
		return true, err
	}
	counts, err := u.AppendBinary(nil)
	if err != nil {
		return false, err
	}
	query := s.db.Statements.Load().InsertUsage
	if was.exists {
		query = s.db.Statements.Load().UpdateUsage
	}
	r, err := db.ExecContext(ctx, query, id[:], []byte(req.Namespace), []byte(req.Tenant), u.Expires(), counts)
	if err != nil || was.exists {
		return err == nil, err // MySQL counts no row if nothing has changed
	}
	return s.db.Statements.Load().HasInserted(r)
}

// sweepUsage removes tenants without any live count. It takes the lock only if there are some.
func (s *Store) sweepUsage(ctx context.Context) error {
	for {
		some, now, err := s.expiredUsage(ctx)
		if err != nil || !some {
			return s.db.CallerError("look for expired counts", err)
		}
		var removed bool
		err = s.db.Backend.WriteTables(ctx, table.RecordID{}, time.Time{}, func(ctx context.Context, w sqlkit.Execer) (bool, error) {
			removed, err = s.removeUsage(ctx, w, now)
			return true, err
		})
		if err != nil || !removed {
			return s.db.CallerError("remove expired counts", err)
		}
	}
}

// removeUsage removes a batch of them.
func (s *Store) removeUsage(ctx context.Context, w sqlkit.Execer, now protocol.Micros) (removed bool, err error) {
	if s.db.Statements.Load().LockExpiredUsage == "" {
		r, err := w.ExecContext(ctx, s.db.Statements.Load().RemoveExpiredUsage, now, sweepBatch)
		if err != nil {
			return false, err
		}
		return table.InsertedByCount(r)
	}
	ids, _, err := lockedRows(ctx, w, s.db.Statements.Load().LockExpiredUsage, now, sweepBatch)
	if err != nil || len(ids) == 0 {
		return false, err
	}
	_, err = w.ExecContext(ctx, s.db.Statements.Load().RemoveLockedUsage(len(ids)), ids...)
	return err == nil, err
}

func (s *Store) expiredUsage(ctx context.Context) (some bool, now protocol.Micros, err error) {
	err = s.db.Backend.ReadTables(ctx, table.AnyRows, func(ctx context.Context, db sqlkit.Execer) error {
		// for the time
		u, err := s.loadUsage(ctx, db, s.db.Statements.Load().LoadUsage, table.RecordID{})
		if err != nil {
			return err
		}
		now = u.now
		var n int
		err = db.QueryRowContext(ctx, s.db.Statements.Load().FindExpiredUsage, now).Scan(&n)
		some = n > 0
		return err
	})
	return some, now, err
}

// queuedCharge is one charge with its caller.
type queuedCharge struct {
	id  table.RecordID
	req storeapi.ChargeRequest
	table.Ticket

	got storeapi.Charged // got and err: the caller must not read them before Done is closed
	err error
}

// chargeQueues groups concurrent charges. It first reads the counts without any lock and answers
// the refused charges, so a flood of those neither delays other calls nor waits for them. For the
// rest it makes one write for each tenant, since a tenant's counts are one row and each commit
// waits for the disk.
type chargeQueues struct{ reading, writing chargeLines }

// chargeLines are queues of charges. While one batch of a line is being processed, the next one
// collects.
type chargeLines struct {
	mu      sync.Mutex
	waiting map[table.RecordID][]*queuedCharge // a line exists while a goroutine works on it
}

// joinLine appends charges to a line. If no goroutine works on the line, joinLine starts one, which
// runs until the line is empty.
func (l *chargeLines) joinLine(line table.RecordID, of []*queuedCharge, batch func(table.RecordID, []*queuedCharge)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiting == nil {
		l.waiting = make(map[table.RecordID][]*queuedCharge)
	}
	waiting, busy := l.waiting[line]
	l.waiting[line] = append(waiting, of...)
	if !busy {
		go func() {
			for of := l.nextBatch(line); of != nil; of = l.nextBatch(line) {
				batch(line, of)
				runtime.Gosched() // callers that were just answered may make their next charge
			}
		}()
	}
}

// nextBatch takes a batch from a line; nil: the line is empty.
func (l *chargeLines) nextBatch(line table.RecordID) []*queuedCharge {
	l.mu.Lock()
	defer l.mu.Unlock()
	waiting := l.waiting[line]
	if len(waiting) == 0 {
		delete(l.waiting, line)
		return nil
	}
	n := min(len(waiting), table.MostTogether)
	l.waiting[line] = waiting[n:]
	return waiting[:n:n]
}

// removeCharge removes a charge whose caller has left, so that the line does not grow while the
// database does not answer.
func (l *chargeLines) removeCharge(line table.RecordID, c *queuedCharge) {
	l.mu.Lock()
	defer l.mu.Unlock()
	of, ok := l.waiting[line]
	if !ok {
		return
	}
	if i := slices.Index(of, c); i >= 0 {
		l.waiting[line] = slices.Delete(of, i, i+1)
	}
}

// countWaiting returns how many charges wait.
func (l *chargeLines) countWaiting() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, of := range l.waiting {
		n += len(of)
	}
	return n
}

// writeLines is how many transactions write concurrently on a server. Each takes the rows of its
// tenants in the same order, so transactions of several processes do not deadlock.
const writeLines = 4

// readLines is how many lines are read concurrently. With a single line, tenants would wait for
// each other.
const readLines = 8

// chargeInBatch makes a charge together with others.
func (s *Store) chargeInBatch(ctx context.Context, c *queuedCharge) error {
	wait, cancel := s.db.NewPatience(ctx, time.Time{})
	defer cancel()
	line := table.RecordID{c.id[0] % readLines}
	s.chargeQueues.reading.joinLine(line, []*queuedCharge{c}, s.readCharges)
	select {
	case <-c.Done:
		return c.err
	case <-wait.Done():
	}
	if c.LeaveQueue() {
		s.chargeQueues.reading.removeCharge(line, c)
		s.chargeQueues.writing.removeCharge(s.writeLine(c), c)
		return s.db.WaitedInVain(wait.Limit, wait.Caller.Err())
	}
	select { // it has begun, and may be counted
	case <-c.Done:
		return c.err
	case <-wait.Caller.Done():
		return &table.UnknownError{Ended: wait.Caller.Err()}
	}
}

// readCharges answers refused charges and queues the others for writing. On SQLite, which has one
// writer, all tenants share one line.
func (s *Store) readCharges(_ table.RecordID, batch []*queuedCharge) {
	tenants := byTenant(slices.DeleteFunc(batch, func(c *queuedCharge) bool { return c.HasLeft() }))
	if len(tenants) == 0 {
		return
	}
	writes, failed := make([]bool, len(tenants)), make([]error, len(tenants))
	err := s.db.Backend.ReadTables(context.Background(), table.OneRow, func(ctx context.Context, db sqlkit.Execer) error {
		for i, of := range tenants {
			u, err := s.loadUsage(ctx, db, s.db.Statements.Load().LoadUsage, of[0].id)
			var state table.StateError
			if err != nil && !errors.As(err, &state) {
				// a failed tenant does not stop the others, as long as the database answers
				return err
			}
			failed[i] = err
			_, writes[i] = decideCharges(&u, of)
		}
		return nil
	})
	for i, of := range tenants {
		if err == nil && failed[i] == nil && writes[i] {
			s.chargeQueues.writing.joinLine(s.writeLine(of[0]), of, s.writeCharges)
			continue
		}
		endCharges(of, errors.Join(err, failed[i]))
	}
}

// writeLine returns the line in which a charge waits to be written. SQLite has one writer.
func (s *Store) writeLine(c *queuedCharge) table.RecordID {
	if s.db.Dialect == SQLite {
		return table.RecordID{}
	}
	return table.RecordID{c.id[0] % writeLines}
}

// writeCharges makes charges in one transaction. If one tenant's charges fail, it makes the others
// without them.
func (s *Store) writeCharges(line table.RecordID, batch []*queuedCharge) {
	for tenants := byTenant(batch); len(tenants) > 0; {
		failed := -1
		err := s.db.Backend.WriteTables(context.Background(), line, time.Time{}, func(ctx context.Context, w sqlkit.Execer) (commit bool, err error) {
			failed = -1
			for i, of := range tenants {
				tenants[i] = slices.DeleteFunc(of, func(c *queuedCharge) bool { return !c.BeginCall() })
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

// endCharges answers the callers.
func endCharges(of []*queuedCharge, err error) {
	for _, c := range of {
		c.err = err
		close(c.Done)
	}
}

// byTenant groups charges by tenant, and keeps the order within each tenant.
func byTenant(batch []*queuedCharge) (tenants [][]*queuedCharge) {
	slices.SortStableFunc(batch, func(a, b *queuedCharge) int { return bytes.Compare(a.id[:], b.id[:]) })
	for len(batch) > 0 {
		n := 1
		for n < len(batch) && batch[n].id == batch[0].id {
			n++
		}
		tenants, batch = append(tenants, batch[:n:n]), batch[n:]
	}
	return tenants
}
