package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe/internal/protocol"
	"github.com/retrysafe/retrysafe/internal/sqlkit"
	"github.com/retrysafe/retrysafe/stores/sqlstore/internal/table"
)

// sweepBatch is how many records one transaction removes; others can write in between.
const sweepBatch = 128

// Sweep implements [storeapi.Sweeper]. It looks for expired records without a lock, and removes
// them in batches. A record is removed only if it is still expired then.
func (s *Store) Sweep(ctx context.Context, limit int) (removed int, err error) {
	if err := s.checkCall(ctx); err != nil {
		return 0, err
	}
	if removed, err = s.sweepRecords(ctx, limit); err == nil {
		err = s.sweepUsage(ctx)
	}
	return removed, err
}

func (s *Store) sweepRecords(ctx context.Context, limit int) (removed int, err error) {
	for removed < limit {
		batch := min(limit-removed, sweepBatch)
		ids, now, err := s.findExpired(ctx, batch)
		if err != nil {
			return removed, err
		}
		n, err := s.removeRecords(ctx, ids, now)
		removed += n
		if err != nil || len(ids) < batch || n == 0 {
			return removed, err
		}
	}
	return removed, nil
}

// findExpired returns the keys of at most n expired records, the oldest first, and the time of that
// read.
func (s *Store) findExpired(ctx context.Context, n int) (ids [][]byte, now protocol.Micros, err error) {
	err = s.db.Backend.ReadTables(ctx, table.AnyRows, func(ctx context.Context, db sqlkit.Execer) error {
		ids = nil
		// for the version and the time
		l, err := s.db.LoadRecord(ctx, db, s.db.Statements.Load().LoadRow, table.RecordID{})
		if err != nil {
			return err
		}
		now = l.Now
		rows, err := db.QueryContext(ctx, s.db.Statements.Load().FindExpired, now, n)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var id []byte
			if err := rows.Scan(&id); err != nil {
				return err
			}
			ids = append(ids, id)
		}
		return rows.Err()
	})
	return ids, now, s.db.CallerError("look for expired records", err)
}

// removeRecords removes those of the records that are still expired. The same transaction stores
// the largest fence among them: a record that is created again gets a larger one, even if the clock
// was set back.
func (s *Store) removeRecords(ctx context.Context, ids [][]byte, now protocol.Micros) (removed int, err error) {
	if len(ids) == 0 {
		return 0, nil
	}
	n := 0
	err = s.db.Backend.WriteTables(ctx, table.RecordID{}, time.Time{}, func(ctx context.Context, w sqlkit.Execer) (bool, error) {
		n = 0
		floor := int64(0)
		one := ids // those that are removed one at a time
		switch {
		case s.db.Statements.Load().RemoveExpired != "":
			if err := w.QueryRowContext(ctx, s.db.Statements.Load().RemoveExpired, now, len(ids)).Scan(&n, &floor); err != nil {
				return false, err
			}
			one = nil
		case s.db.Statements.Load().LockExpired != nil:
			var err error
			if n, floor, err = s.removeLocked(ctx, w, ids, now); err != nil {
				return false, err
			}
			one = nil
		}
		for _, id := range one {
			var fence int64
			err := w.QueryRowContext(ctx, s.db.Statements.Load().RemoveOne, id, now).Scan(&fence)
			if errors.Is(err, sql.ErrNoRows) {
				continue // it was claimed again
			}
			if err != nil {
				return false, fmt.Errorf("remove a record: %w", err)
			}
			n++
			floor = max(floor, fence)
		}
		if n == 0 {
			return false, nil
		}
		_, err := w.ExecContext(ctx, s.db.Statements.Load().RaiseFloor, floor)
		return true, err
	})
	if err != nil {
		return 0, s.db.CallerError("remove expired records", err)
	}
	return n, nil
}

// removeLocked locks the records that are still expired and that no other transaction has locked,
// and removes them.
func (s *Store) removeLocked(ctx context.Context, w sqlkit.Execer, ids [][]byte, now protocol.Micros) (n int, floor int64, err error) {
	args := make([]any, 0, len(ids)+1)
	for _, id := range ids {
		args = append(args, id)
	}
	old, floor, err := lockedRows(ctx, w, s.db.Statements.Load().LockExpired(len(ids)), append(args, now)...)
	if err != nil || len(old) == 0 {
		return 0, 0, err
	}
	_, err = w.ExecContext(ctx, s.db.Statements.Load().RemoveLocked(len(old)), append(old, now)...)
	return len(old), floor, err
}

// lockedRows returns the keys of the rows that a statement has locked, and their largest fence.
func lockedRows(ctx context.Context, w sqlkit.Execer, query string, args ...any) (ids []any, floor int64, err error) {
	rows, err := w.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, 0, err
	}
	defer rows.Close()
	for rows.Next() {
		var id []byte
		var fence int64
		if err := rows.Scan(&id, &fence); err != nil {
			return nil, 0, err
		}
		ids, floor = append(ids, id), max(floor, fence)
	}
	return ids, floor, rows.Err()
}
