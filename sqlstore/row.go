package sqlstore

import (
	"context"
	"crypto/sha256"
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
	return s.putOrMake(ctx, db, s.queries.put, s.queries.make, was.row.State != 0, s.allArgs(key, id, row))
}

// allArgs returns the values of all columns.
func (s *Store) allArgs(key *retrysafe.StoreKey, id recordID, row *protocol.Row) []any {
	return append([]any{
		id[:], []byte(key.Namespace), []byte(key.Layer), []byte(key.Tenant), []byte(key.Operation), []byte(key.ID),
	}, s.rowArgs(row)...)
}

// putOrMake overwrites an existing row, or inserts a new one. It returns false if another call has
// inserted one meanwhile.
func (s *Store) putOrMake(ctx context.Context, db execer, put, makeNew string, there bool, args []any) (done bool, err error) {
	if there {
		// MySQL counts no row if nothing has changed
		_, err := db.ExecContext(ctx, put, args...)
		return err == nil, err
	}
	r, err := db.ExecContext(ctx, makeNew, args...)
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

// rowArgs returns the values of stored.
func (s *Store) rowArgs(r *protocol.Row) []any {
	var digest []byte
	if r.Answer.Digest != [sha256.Size]byte{} {
		digest = r.Answer.Digest[:]
	}
	return []any{
		int64(r.State), int64(r.Attempt), int64(r.Fence), r.Owner[:], int64(r.OnDoubt), flag(r.Issued), blob(r.Fingerprint), blob(r.Binding), //nolint:gosec // fences stay below 2^53
		r.LeaseEnd, r.Expires, r.Created, r.Updated, r.NotAfter, r.Retention,
		s.queries.text(r.Cause), s.queries.text(r.LastError), blob(r.AppendWorked(nil)), s.queries.text(r.Answer.Codec), flag(r.Answer.Kept), r.Answer.Size, blob(digest), blob(r.Answer.Body),
	}
}

// blob returns NULL for nil. Some drivers turn a typed nil into an empty value.
func blob(b []byte) any {
	if b == nil {
		return nil
	}
	return b
}

func flag(set bool) int64 {
	if set {
		return 1
	}
	return 0
}

// rowScan receives the columns of selected and the answer after them.
type rowScan struct {
	r                         protocol.Row
	state, onDoubt            uint8
	fence, issued, kept       int64 // some drivers cannot convert a number to a bool
	owner, digest, worked     []byte
	cause, lastError, codec   sql.NullString
	noPrint, noBinding, noAns bool
}

func (s *rowScan) fields() []any {
	r := &s.r
	return []any{
		&s.state, &r.Attempt, &s.fence, &s.owner, &s.onDoubt, &s.issued, &r.Fingerprint, &s.noPrint, &r.Binding, &s.noBinding,
		&r.LeaseEnd, &r.Expires, &r.Created, &r.Updated, &r.NotAfter, &r.Retention, &s.cause, &s.lastError, &s.worked,
		&s.codec, &s.kept, &r.Answer.Size, &s.digest, &r.Answer.Body, &s.noAns,
	}
}

// row returns the row that was read, or an error if this package cannot have written it: no
// decision is based on a damaged row.
func (s *rowScan) row() (protocol.Row, error) {
	r := s.r
	if s.state == 0 {
		return protocol.Row{}, nil
	}
	r.State, r.OnDoubt = retrysafe.State(s.state), retrysafe.OnDoubt(s.onDoubt)
	if r.State > retrysafe.StateReleased || r.OnDoubt == 0 || r.OnDoubt > retrysafe.Reexecute ||
		len(s.owner) != len(r.Owner) || len(s.digest) != 0 && len(s.digest) != len(r.Answer.Digest) {
		return protocol.Row{}, fmt.Errorf("the record is damaged: state %d, policy on doubt %d, owner of %d bytes; look at it by its id before you remove it",
			s.state, s.onDoubt, len(s.owner))
	}
	if err := r.ParseWorked(s.worked); err != nil {
		return protocol.Row{}, err
	}
	r.Fence = retrysafe.Fence(s.fence) //nolint:gosec // fences stay below 2^53
	r.Cause, r.LastError, r.Answer.Codec = s.cause.String, s.lastError.String, s.codec.String
	r.Issued, r.Answer.Kept = s.issued != 0, s.kept != 0
	copy(r.Owner[:], s.owner)
	copy(r.Answer.Digest[:], s.digest)
	r.Fingerprint, r.Binding, r.Answer.Body = nilable(r.Fingerprint, s.noPrint), nilable(r.Binding, s.noBinding), nilable(r.Answer.Body, s.noAns)
	return r, nil
}

func nilable(b []byte, null bool) []byte {
	if null {
		return nil
	}
	if b == nil {
		return []byte{}
	}
	return b
}
