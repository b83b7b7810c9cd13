package sqlstore

import (
	"context"
	"errors"
	"math/bits"
	"strings"
	"time"
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
	list := inList(s)
	// Before a connection is held: preparing takes one.
	statements, err := s.statements.get(ctx, s.Store, s.queries.put, list.query(len(changes)))
	if err != nil {
		return err
	}
	// the records are in one file, so attached files do not matter
	tx, err := s.beginOn(ctx, func(context.Context, execer) error { return nil })
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
	limit := s.lockWait
	for _, c := range changes {
		if !c.notAfter.IsZero() {
			limit = min(limit, max(0, c.notAfter.Sub(s.clock())))
		}
	}
	return limit
}

// see implements backend. It uses no session: no caller waits for SQLite longer than its own
// context, whatever busy_timeout is.
func (s sqlite) see(ctx context.Context, of []*sight) error {
	list := inList(s)
	query := list.query(len(of))
	statements, err := s.statements.get(ctx, s.Store, query)
	if err != nil {
		return err
	}
	wait, cancel := s.patience(ctx, time.Time{})
	defer cancel()
	return wait.over(retry(wait, func() error { return s.Store.see(ctx, pooled{statements[query]}, list, of) }))
}

// inList reads many rows with one statement that lists their ids, and writes each row with a
// prepared one.
type inList struct{ *Store }

func (l inList) loadMany(ctx context.Context, w querier, ids []recordID) (map[recordID]loaded, loaded, error) {
	args := make([]any, places(len(ids)))
	for i := range args {
		args[i] = ids[min(i, len(ids)-1)][:]
	}
	return l.loadAll(ctx, w, l.query(len(ids)), args...)
}

// query returns a statement with places(n) placeholders for n ids; the last id fills the rest. So
// there are few different statements to prepare.
func (l inList) query(n int) string {
	return strings.Replace(l.queries.loadMany, "(?)", "(?"+strings.Repeat(", ?", places(n)-1)+")", 1)
}

// places returns n rounded up to a power of two.
func places(n int) int { return 1 << bits.Len(uint(n-1)) }

// surely is always true, since no other call writes.
func (inList) surely(*change) bool { return true }

func (l inList) writeMany(ctx context.Context, w execer, made, changed []*change) error {
	for _, c := range append(made, changed...) {
		if _, err := w.ExecContext(ctx, l.queries.put, c.args()...); err != nil {
			return err
		}
	}
	return nil
}
