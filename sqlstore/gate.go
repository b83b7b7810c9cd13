package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/retrysafe/retrysafe/sqlstore/dbtx"
	"github.com/retrysafe/retrysafe/storeapi"
)

// pass asks the gate whether the transaction may commit. The COMMIT comes next.
func (c *claim) pass(ctx context.Context, tx dbtx.Tx) error {
	gate := c.r.Gate
	if gate == nil {
		return nil
	}
	if c.store.db.queries().hold != "" {
		lock := idOf(gate.Lock)
		var held any
		err := tx.QueryRow(ctx, c.store.db.queries().hold, []any{lock[:]}, &held)
		if errors.Is(err, sql.ErrNoRows) {
			return fmt.Errorf("%w: the record that the transaction's gate is to lock is not there", storeapi.ErrUnavailable)
		}
		if err != nil {
			return c.broken(ctx, err)
		}
	}
	query := c.store.db.queries().unlocked()
	return gate.Check(ctx, func(key storeapi.StoreKey) (storeapi.Record, error) {
		id := idOf(key)
		l, err := c.store.db.loadBy(func(dest ...any) error { return tx.QueryRow(ctx, query, []any{id[:]}, dest...) })
		if err != nil {
			return storeapi.Record{}, c.broken(ctx, err)
		}
		return l.row.Record(key, l.now), nil
	})
}

// WaitTx implements [storeapi.TxWaiter]. On SQLite it returns at once: a transaction locks the
// whole file, so every later transaction sees what was committed before the call.
func (s *Store) WaitTx(ctx context.Context, key storeapi.StoreKey) error {
	if err := s.check(ctx, &key); err != nil || s.db.queries().waitTx == "" {
		return err
	}
	id := idOf(key)
	var ignored any
	// In a transaction of its own: without one the lock would stay with an idle connection of the
	// pool, if the server's autocommit is off.
	tx, err := s.db.pool.BeginTx(ctx, nil)
	if err != nil {
		return unavailable(s.db.failed("wait for transactions", err))
	}
	defer tx.Rollback() //nolint:errcheck // it has only read
	err = tx.QueryRowContext(ctx, s.db.queries().waitTx, id[:]).Scan(&ignored)
	if errors.Is(err, sql.ErrNoRows) {
		return nil // a missing record cannot have been locked
	}
	if err != nil {
		return unavailable(s.db.failed("wait for transactions", err))
	}
	return nil
}
