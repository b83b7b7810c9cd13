package shops

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/test/servers/internal/teststores"
	"github.com/retrysafe/retrysafe/test/servers/internal/waits"
)

// BlockedOrder starts an order whose work has begun and waits.
func (s *Shop) BlockedOrder(t *testing.T, customer string, result error) (finish func() error) {
	t.Helper()
	began, goOn, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		_, err := retrysafe.DoTx(context.Background(), s.Engine, s.Store, teststores.OrderKey(customer), func(ctx context.Context, tx *sql.Tx) (int64, error) {
			close(began)
			<-goOn
			id, err := Insert(ctx, tx, customer)
			return id, errors.Join(err, result)
		})
		done <- err
	}()
	waits.Soon(t, began, "the work")
	finish = sync.OnceValue(func() error { close(goOn); return waits.Soon(t, done, "the end of the work") })
	t.Cleanup(func() { _ = finish() })
	return finish
}

// Join begins a transaction, takes an order in it, and commits or rolls back as the error says.
// then may be nil.
func (s *Shop) Join(t *testing.T, customer string, then func(tx *sql.Tx) error, opts ...retrysafe.CallOption) (res retrysafe.Result[int64], ran bool, err error) {
	t.Helper()
	tx, err := s.DB.BeginTx(t.Context(), nil)
	assert.NoError(t, err, "begin")
	defer func() { _ = tx.Rollback() }() // where it was not committed
	res, err = retrysafe.DoTx(t.Context(), s.Engine, s.Store.In(tx), teststores.OrderKey(customer), func(ctx context.Context, tx *sql.Tx) (id int64, err error) {
		ran = true
		if id, err = Insert(ctx, tx, customer); err == nil && then != nil {
			err = then(tx)
		}
		return id, err
	}, opts...)
	var failure *retrysafe.Failure
	if err != nil && !errors.As(err, &failure) {
		return res, ran, err
	}
	return res, ran, errors.Join(err, tx.Commit())
}

// PlainOrder is Order without its result.
func (s *Shop) PlainOrder(ctx context.Context, customer string) error {
	_, err := s.Order(ctx, customer)
	return err
}

// StepOrder makes a call whose one step is an order in a transaction.
func (s *Shop) StepOrder(ctx context.Context, customer string) error {
	_, err := retrysafe.Do(ctx, s.Engine, teststores.OrderKey(customer), func(ctx context.Context) (int64, error) {
		return retrysafe.StepTx(ctx, s.Store, "order", func(ctx context.Context, tx *sql.Tx) (int64, error) { return Insert(ctx, tx, customer) })
	}, retrysafe.WithPolicy(retrysafe.Policy{OnDoubt: retrysafe.Reexecute}))
	return err
}
