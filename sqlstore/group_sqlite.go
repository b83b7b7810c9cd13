package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"math/bits"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe/internal/sqlkit"
)

// together makes changes in one transaction. If other processes keep the file locked, making each
// change alone would not help.
func (s sqlite) together(changes []*change) error {
	err := s.transaction(changes)
	var lock *lockError
	if !errors.As(err, &lock) {
		return err
	}
	for _, c := range changes {
		if c.err == nil {
			c.err = err
		}
	}
	return nil
}

func (s sqlite) transaction(changes []*change) error {
	ctx := context.Background() // once the lock is held, the rest is short
	list := inList{s.db, 0}
	for _, c := range changes {
		if c.looks(list) {
			list.least++
		}
	}
	// Before a connection is held: preparing takes one.
	statements, err := s.db.statements.get(ctx, s.db, s.db.queries().lock, s.db.queries().make, s.db.queries().put, s.db.queries().putSame, list.query(1))
	if err != nil {
		return err
	}
	// the records are in one file, so attached files do not matter
	tx, err := s.db.beginWith(ctx, func(tx *sql.Tx) error { return s.db.lockFile(ctx, prepared{tx, statements}) })
	if err != nil {
		return err
	}
	defer tx.end()
	now := begin(changes)
	if len(now) == 0 {
		return nil
	}
	commit, err := changeAll(ctx, prepared{tx.Tx, statements}, list, now)
	if err != nil || !commit {
		return err
	}
	if err := tx.commitWithin(ctx, s.timeLeft(now)); err != nil {
		if sqliteUndone(err) {
			return err
		}
		return &commitError{err}
	}
	return nil
}

// timeLeft returns how long a COMMIT may wait: until the first of the changes would come too late.
// If it waits in vain, each change is made alone, in its own time.
func (s sqlite) timeLeft(changes []*change) time.Duration {
	limit := s.db.lockWait
	for _, c := range changes {
		if !c.notAfter.IsZero() {
			limit = min(limit, max(0, c.notAfter.Sub(s.db.clock())))
		}
	}
	return limit
}

// see implements backend. It uses no session: no caller waits for SQLite longer than its own
// context, whatever busy_timeout is.
func (s sqlite) see(ctx context.Context, of []*sight) error {
	list := inList{s.db, len(of)}
	query := list.query(len(of))
	statements, err := s.db.statements.get(ctx, s.db, query)
	if err != nil {
		return err
	}
	wait, cancel := s.db.patience(ctx, time.Time{})
	defer cancel()
	return wait.over(retry(wait, func() error { return seeMany(ctx, pooled{statements[query]}, list, of) }))
}

// inList reads many rows with one statement that lists their ids, and writes each row with a
// prepared one.
type inList struct {
	db    *database
	least int // how many ids the statement has at least
}

func (l inList) loadMany(ctx context.Context, w querier, ids []recordID) (map[recordID]loaded, loaded, error) {
	args := make([]any, l.places(len(ids)))
	for i := range args {
		args[i] = ids[min(i, len(ids)-1)][:]
	}
	return l.db.loadAll(ctx, w, l.query(len(ids)), args...)
}

// query returns a statement with placeholders for n ids; the last id fills the rest.
func (l inList) query(n int) string {
	return strings.Replace(l.db.queries().loadMany, "(?)", "("+sqlkit.List(l.places(n))+")", 1)
}

// places returns the number of ids in a statement for n, a power of two. So there are few different
// statements to prepare.
func (l inList) places(n int) int { return 1 << bits.Len(uint(max(1, l.least, n)-1)) }

// surely is always true, since no other call writes.
func (inList) surely(*change) bool { return true }

func (inList) insertsFirst() bool { return true }

func (l inList) writeMany(ctx context.Context, w sqlkit.Execer, made, changed []*change) error {
	for _, c := range made {
		r, err := w.ExecContext(ctx, l.db.queries().make, c.args()...)
		if err != nil {
			return err
		}
		made, err := byCount(r)
		if err != nil {
			return err
		}
		if !made {
			c.met()
		}
	}
	for _, c := range changed {
		if c.last != nil {
			same, err := l.putSame(ctx, w, c)
			if err != nil {
				return err
			}
			c.alone = !same
			continue
		}
		if _, err := w.ExecContext(ctx, l.db.queries().put, append(rowArgs(&c.next), c.id[:])...); err != nil {
			return err
		}
	}
	return nil
}

// putSame overwrites a record if it is as this store has last written it.
func (l inList) putSame(ctx context.Context, w sqlkit.Execer, c *change) (same bool, err error) {
	was := c.last
	args := append(rowArgs(&c.next), c.id[:], was.Owner[:], int64(was.Fence), int64(was.State), was.LeaseEnd, was.Updated, appendData(nil, was)) //nolint:gosec // fences stay below 2^53
	r, err := w.ExecContext(ctx, l.db.queries().putSame, args...)
	if err != nil {
		return false, err
	}
	return byCount(r)
}

func (sqlite) insertsFirst() bool { return true }
