package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/protocol"
)

// execer is a connection or a transaction.
type execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// loaded is the input of a decision.
type loaded struct {
	row   protocol.Row
	floor retrysafe.Fence // the largest fence of a removed record
	now   protocol.Micros // the store's clock
}

// load reads the record, and checks in the same statement whether this build may use the tables.
func (s *Store) load(ctx context.Context, db execer, query string, id recordID) (l loaded, err error) {
	return s.loadBy(func(dest ...any) error { return db.QueryRowContext(ctx, query, id[:]).Scan(dest...) })
}

// loadBy is load with a function that reads the row.
func (s *Store) loadBy(read func(dest ...any) error) (l loaded, err error) {
	var version int
	var floor int64
	var now sql.NullInt64
	var scan rowScan
	l.now = s.clock().UnixMicro()
	err = read(append([]any{&version, &floor, &now}, scan.fields()...)...)
	if err := s.readable(version, err); err != nil {
		return l, err
	}
	return s.loadedFrom(floor, now, l.now, &scan)
}

// loadedFrom converts what was read; here is this machine's time from before the read.
func (s *Store) loadedFrom(floor int64, now sql.NullInt64, here protocol.Micros, scan *rowScan) (l loaded, err error) {
	l.now = s.time(now, here)
	l.floor = retrysafe.Fence(floor) //nolint:gosec // fences stay below 2^53
	l.row, err = scan.row()
	return l, err
}

// readable returns nil if this build may use the tables, given the version that was read.
func (s *Store) readable(version int, err error) error {
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return s.notMigrated()
	case err != nil:
		return err
	case version == transacts:
		return errTransacts
	case version != s.queries.newest:
		return s.wrongVersion(version)
	}
	return nil
}

// time returns the database's time if it has sent one, else here, this machine's time from before
// the read.
func (s *Store) time(told sql.NullInt64, here protocol.Micros) protocol.Micros {
	if !told.Valid {
		return here
	}
	if s.clock().UnixMicro()-here > slack.Microseconds() {
		// the reply took long, perhaps because of a lock, so it says little about the clock
		return told.Int64
	}
	s.ahead.Store(told.Int64 - time.Now().UnixMicro())
	return told.Int64
}

// put replaces the loaded row of key. It returns false if there was no row, and another call has
// inserted one meanwhile.
func (s *Store) put(ctx context.Context, db execer, key *retrysafe.StoreKey, id recordID, was *loaded, row *protocol.Row) (done bool, err error) {
	if was.row.State != 0 {
		// MySQL counts no row if nothing has changed
		_, err := db.ExecContext(ctx, s.queries.put, append(rowArgs(row), id[:])...)
		return err == nil, err
	}
	r, err := db.ExecContext(ctx, s.queries.make, insertArgs(key, id, row)...)
	if err != nil {
		return false, err
	}
	return s.queries.made(r)
}

// byCount reports whether a statement has inserted a row.
func byCount(r sql.Result) (bool, error) {
	n, err := r.RowsAffected()
	return n > 0, err
}

// insertArgs returns the values of inserted.
func insertArgs(key *retrysafe.StoreKey, id recordID, row *protocol.Row) []any {
	return append([]any{id[:], partsOf(key)}, rowArgs(row)...)
}

// rowArgs returns the values of stored.
func rowArgs(r *protocol.Row) []any {
	return append([]any{r.Owner[:], int64(r.Fence)}, finishedArgs(r)...) //nolint:gosec // fences stay below 2^53
}

// finishedArgs returns the values of finished.
func finishedArgs(r *protocol.Row) []any {
	data := appendData(make([]byte, 0, 96), r)
	return []any{int64(r.State), r.LeaseEnd, r.Expires, r.Updated, data, blob(r.Answer.Body)}
}

// finishArgs returns the arguments of queries.finish for the attempt of a row.
func finishArgs(id recordID, r *protocol.Row) []any {
	return append(finishedArgs(r), id[:], r.Owner[:], int64(r.Fence)) //nolint:gosec // fences stay below 2^53
}

// blob returns NULL for nil. Some drivers turn a typed nil into an empty value.
func blob(b []byte) any {
	if b == nil {
		return nil
	}
	return b
}

// rowScan receives the columns of selected and the answer after them.
type rowScan struct {
	r           protocol.Row
	state       uint8
	fence       int64
	owner, data []byte
}

func (s *rowScan) fields() []any {
	r := &s.r
	return []any{&s.owner, &s.fence, &s.state, &r.LeaseEnd, &r.Expires, &r.Updated, &s.data, &r.Answer.Body}
}

// row returns the row that was read, or an error if this package cannot have written it: no
// decision is based on a damaged row.
func (s *rowScan) row() (protocol.Row, error) {
	r := s.r
	if s.state == 0 {
		return protocol.Row{}, nil
	}
	r.State = retrysafe.State(s.state)
	if r.State > retrysafe.StateReleased || len(s.owner) != len(r.Owner) {
		return protocol.Row{}, fmt.Errorf("the record is damaged: state %d, owner of %d bytes; look at it by its id before you remove it",
			s.state, len(s.owner))
	}
	r.Fence = retrysafe.Fence(s.fence) //nolint:gosec // fences stay below 2^53
	copy(r.Owner[:], s.owner)
	if err := parseData(&r, s.data); err != nil {
		return protocol.Row{}, err
	}
	return r, nil
}
