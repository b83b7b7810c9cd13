package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/retrysafe/retrysafe/internal/protocol"
	"github.com/retrysafe/retrysafe/internal/sqlkit"
	"github.com/retrysafe/retrysafe/storeapi"
)

// load reads the record, and checks in the same statement whether this build may use the tables.
func (d *database) load(ctx context.Context, db sqlkit.Execer, query string, id recordID) (l loaded, err error) {
	return d.loadBy(func(dest ...any) error { return db.QueryRowContext(ctx, query, id[:]).Scan(dest...) })
}

// loadBy is load with a function that reads the row.
func (d *database) loadBy(read func(dest ...any) error) (l loaded, err error) {
	var version int
	var floor int64
	var now sql.NullInt64
	var scan rowScan
	l.now = d.clock().UnixMicro()
	err = read(append([]any{&version, &floor, &now}, scan.fields()...)...)
	if err := d.readable(version, err); err != nil {
		return l, err
	}
	return d.loadedFrom(floor, now, l.now, &scan)
}

// loadedFrom converts what was read; here is this machine's time from before the read.
func (d *database) loadedFrom(floor int64, now sql.NullInt64, here protocol.Micros, scan *rowScan) (l loaded, err error) {
	l.now = d.time(now, here)
	l.floor = storeapi.Fence(floor) //nolint:gosec // fences stay below 2^53
	l.row, err = scan.row()
	return l, err
}

// loadToWrite reads and locks the record, on databases that lock records. If it is missing and may
// have been there before, a sweep may have removed it while this call waited. The largest removed
// fence may have been read before that removal, so it is read again.
func (d *database) loadToWrite(ctx context.Context, w sqlkit.Execer, id recordID, wasThere bool) (loaded, error) {
	l, err := d.load(ctx, w, d.queries().loadToWrite, id)
	if err == nil && l.row.State == 0 && wasThere {
		return d.load(ctx, w, d.queries().loadToWrite, id)
	}
	return l, err
}

// loadAll reads the rows of a statement like queries.loadMany.
func (d *database) loadAll(ctx context.Context, w querier, query string, args ...any) (found map[recordID]loaded, absent loaded, err error) {
	here := d.clock().UnixMicro()
	rows, err := w.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, absent, err
	}
	defer rows.Close()
	found = make(map[recordID]loaded)
	migrated := false
	for rows.Next() {
		var version int
		var floor int64
		var now sql.NullInt64
		var id []byte
		var scan rowScan
		if err := rows.Scan(append([]any{&version, &floor, &now, &id}, scan.fields()...)...); err != nil {
			return nil, absent, err
		}
		if err := d.readable(version, nil); err != nil {
			return nil, absent, err
		}
		l, err := d.loadedFrom(floor, now, here, &scan)
		if err != nil {
			return nil, absent, err
		}
		migrated, absent = true, loaded{floor: l.floor, now: l.now}
		if len(id) == len(recordID{}) {
			found[recordID(id)] = l
		}
	}
	if err := rows.Err(); err != nil {
		return nil, absent, err
	}
	if !migrated {
		return nil, absent, d.notMigrated()
	}
	return found, absent, nil
}

// readable returns nil if this build may use the tables, given the version that was read.
func (d *database) readable(version int, err error) error {
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return d.notMigrated()
	case err != nil:
		return err
	case version == transacts:
		return errTransacts
	case version != d.queries().newest:
		return d.wrongVersion(version)
	}
	return nil
}

// time returns the database's time if it has sent one, else here, this machine's time from before
// the read.
func (d *database) time(told sql.NullInt64, here protocol.Micros) protocol.Micros {
	if !told.Valid {
		return here
	}
	if d.clock().UnixMicro()-here > slack.Microseconds() {
		// the reply took long, perhaps because of a lock, so it says little about the clock
		return told.Int64
	}
	d.ahead.Store(told.Int64 - time.Now().UnixMicro())
	return told.Int64
}

// put replaces the loaded row of key. It returns false if there was no row, and another call has
// inserted one meanwhile.
func (d *database) put(ctx context.Context, db sqlkit.Execer, key *storeapi.StoreKey, id recordID, was *loaded, row *protocol.Row) (done bool, err error) {
	if was.row.State != 0 {
		// MySQL counts no row if nothing has changed
		_, err := db.ExecContext(ctx, d.queries().put, append(rowArgs(row), id[:])...)
		return err == nil, err
	}
	r, err := db.ExecContext(ctx, d.queries().make, insertArgs(key, id, row)...)
	if err != nil {
		return false, err
	}
	return d.queries().made(r)
}

// errTransacts means that the session has autocommit off, and that nothing was read.
var errTransacts = errors.New("sqlstore: the session has autocommit off")

// transacts replaces the version of the tables; no version has this number.
const transacts = -1
