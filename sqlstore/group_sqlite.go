package sqlstore

import (
	"context"
	"errors"
	"math/bits"
	"strings"
	"time"
)

// together makes changes in one transaction. A file that others hold all the time is no better for
// each of them alone.
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
	ctx := context.Background() // from the moment that the lock is held, all that follows is short
	list := inList(s)
	// Before a connection is held: to prepare takes one.
	statements, err := s.statements.get(ctx, s.Store, s.queries.put, list.query(len(changes)))
	if err != nil {
		return err
	}
	// the records are in one file
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
	if err := tx.commit(ctx); err != nil {
		if sqliteUndone(err) {
			return err
		}
		return &commitError{err}
	}
	return nil
}

// see implements backend. It goes without a session: no caller waits for SQLite longer than its own
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

// inList reads many rows with one statement that lists their ids, and writes each with the same
// one.
type inList struct{ *Store }

func (l inList) loadMany(ctx context.Context, w querier, ids []recordID) (map[recordID]loaded, loaded, error) {
	args := make([]any, places(len(ids)))
	for i := range args {
		args[i] = ids[min(i, len(ids)-1)][:]
	}
	return l.loadAll(ctx, w, l.query(len(ids)), args...)
}

// query has places for n ids; some are the last one again, so that there are few statements to
// prepare.
func (l inList) query(n int) string {
	return strings.Replace(l.queries.loadMany, "(?)", "(?"+strings.Repeat(", ?", places(n)-1)+")", 1)
}

// places is n or the next power of two.
func places(n int) int { return 1 << bits.Len(uint(n-1)) }

// surely is so: nobody else writes.
func (inList) surely(*change) bool { return true }

func (l inList) writeMany(ctx context.Context, w execer, made, changed []*change) error {
	for _, c := range append(made, changed...) {
		if _, err := w.ExecContext(ctx, l.queries.put, c.args()...); err != nil {
			return err
		}
	}
	return nil
}
