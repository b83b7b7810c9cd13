package tx_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/test/servers/internal/shops"
	"github.com/retrysafe/retrysafe/test/servers/internal/sqltest"
	"github.com/retrysafe/retrysafe/test/servers/internal/teststores"
	"github.com/retrysafe/retrysafe/test/servers/internal/waits"
)

// packing is work of one step in a transaction.
type packing struct {
	*shops.Shop
	t *testing.T
}

func (p *packing) doStep(work func(ctx context.Context, tx *sql.Tx) (int64, error)) error {
	p.t.Helper()
	o := retrysafe.WithPolicy(retrysafe.Policy{OnDoubt: retrysafe.Reexecute})
	_, err := retrysafe.Do(p.t.Context(), p.Engine, teststores.OrderKey("ada"), func(ctx context.Context) (int64, error) {
		return retrysafe.StepTx(ctx, p.Store, "order", work)
	}, o)
	return err
}

func (p *packing) insertRow(ctx context.Context, tx *sql.Tx) (int64, error) {
	return shops.Insert(ctx, tx, "ada")
}

// recordedSteps returns the steps that the record shows.
func (p *packing) recordedSteps() []retrysafe.StepRecord {
	p.t.Helper()
	rec, err := p.Store.Lookup(p.t.Context(), storeapi.StoreKey{Namespace: "app", Layer: "fn", Key: teststores.OrderKey("ada")})
	assert.NoError(p.t, err, "Lookup")
	progress, err := retrysafe.ProgressOf(&rec)
	assert.NoError(p.t, err, "progress")
	return progress.Steps
}

//nolint:tparallel // the parts share tables where they share a server
func TestSQLiteStepTx(t *testing.T) { t.Parallel(); stepTxEnds(t, shops.NewFile) }

// stepTxEnds: how the result of a step's work ends its transaction and the call.
func stepTxEnds(t *testing.T, open func(*testing.T) *shops.Shop) {
	t.Helper()
	errLate := errors.New("out of stock")
	for name, c := range map[string]struct {
		work func(p *packing) func(context.Context, *sql.Tx) (int64, error)
		want error
	}{
		"an error": {func(p *packing) func(context.Context, *sql.Tx) (int64, error) {
			return func(ctx context.Context, tx *sql.Tx) (int64, error) {
				id, err := p.insertRow(ctx, tx)
				return id, errors.Join(err, errLate)
			}
		}, errLate},
		"a step inside": {func(p *packing) func(context.Context, *sql.Tx) (int64, error) {
			return func(ctx context.Context, tx *sql.Tx) (int64, error) {
				_, err := p.insertRow(ctx, tx)
				assert.NoError(p.t, err, "insert")
				return retrysafe.Step(ctx, "inside", func(context.Context) (int64, error) { return 0, nil })
			}
		}, retrysafe.ErrInTransaction},
		"a call inside": {func(p *packing) func(context.Context, *sql.Tx) (int64, error) {
			return func(ctx context.Context, tx *sql.Tx) (int64, error) {
				_, err := p.insertRow(ctx, tx)
				assert.NoError(p.t, err, "insert")
				_, err = p.Store.Lookup(ctx, teststores.Request("other").Key)
				return 0, err
			}
		}, retrysafe.ErrInTransaction},
		"the record is removed": {func(p *packing) func(context.Context, *sql.Tx) (int64, error) {
			return func(ctx context.Context, tx *sql.Tx) (int64, error) {
				_, err := tx.ExecContext(ctx, "UPDATE retrysafe_records SET fence = fence + 1")
				assert.NoError(p.t, err, "change the record")
				return p.insertRow(ctx, tx)
			}
		}, retrysafe.ErrLeaseLost},
	} {
		t.Run(name, func(t *testing.T) {
			p := &packing{open(t), t}
			err := p.doStep(c.work(p))
			assert.ErrorIs(t, err, c.want, "the call")
			assert.Equal(t, p.Orders(t, "ada"), 0, "orders")
			assert.Equal(t, len(p.recordedSteps()), 0, "steps")
			sqltest.Exec(t, p.DB, "UPDATE retrysafe_records SET lease_end = 1 WHERE state = 2 AND lease_end > 1")
			assert.NoError(t, p.doStep(p.insertRow), "the call that goes on")
			assert.Equal(t, p.Orders(t, "ada"), 1, "orders")
		})
	}
}

//nolint:tparallel // the parts share tables where they share a server
func TestSQLiteStepTxEndedByTheWork(t *testing.T) {
	t.Parallel()
	stepTxEndedByTheWork(t, shops.NewFile)
}

// stepTxEndedByTheWork: a step that ends its transaction itself is in doubt, since its effect may
// exist without its record.
func stepTxEndedByTheWork(t *testing.T, open func(*testing.T) *shops.Shop) {
	t.Helper()
	for name, then := range map[string]error{"and returns": nil, "and fails": errors.New("too late")} {
		t.Run(name, func(t *testing.T) {
			p := &packing{open(t), t}
			err := p.doStep(func(ctx context.Context, tx *sql.Tx) (int64, error) {
				id, err := p.insertRow(ctx, tx)
				return id, errors.Join(err, tx.Commit(), then)
			})
			assert.ErrorIs(t, err, retrysafe.ErrTxEnded, "the call")
			rec, err := p.Store.Lookup(t.Context(), storeapi.StoreKey{Namespace: "app", Layer: "fn", Key: teststores.OrderKey("ada")})
			assert.True(t, err == nil && rec.InDoubt(), "somebody has to look: %v %v", rec, err)
		})
	}
}

// TestSQLiteStepTxCommitReplyLost: the outcome of the COMMIT is found out and returned.
func TestSQLiteStepTxCommitReplyLost(t *testing.T) {
	t.Parallel()
	for _, applied := range []bool{true, false} {
		s, set := shops.Faulty(t, nil)
		p := &packing{s, t}
		var after error
		lost := sqltest.Fault(func(step string, run func() error) error {
			switch {
			case step != "commit":
				return run()
			case applied:
				return errors.Join(run(), sqltest.ErrCut)
			}
			return sqltest.ErrCut
		})
		_, err := retrysafe.Do(t.Context(), p.Engine, teststores.OrderKey("ada"), func(ctx context.Context) (int64, error) {
			var id int64
			set(lost)
			id, after = retrysafe.StepTx(ctx, p.Store, "order", p.insertRow)
			set(nil)
			return id, after
		}, retrysafe.WithPolicy(retrysafe.Policy{OnDoubt: retrysafe.Reexecute}))
		if applied {
			assert.NoError(t, err, "a COMMIT that was applied")
			assert.Equal(t, p.Orders(t, "ada"), 1, "orders")
			continue
		}
		assert.ErrorIs(t, err, retrysafe.ErrUnavailable, "a COMMIT that was not applied")
		assert.Equal(t, p.Orders(t, "ada"), 0, "orders")
		assert.NoError(t, p.doStep(p.insertRow), "the call that goes on")
		assert.Equal(t, p.Orders(t, "ada"), 1, "orders after that")
	}
}

func TestSQLiteStepTxOfAStaleHolder(t *testing.T) {
	t.Parallel()
	stepTxOfAStaleHolder(t, shops.NewFile)
}

// stepTxOfAStaleHolder: a holder that was taken over commits nothing.
func stepTxOfAStaleHolder(t *testing.T, open func(*testing.T) *shops.Shop) {
	t.Helper()
	p := &packing{open(t), t}
	_, err := retrysafe.Do(t.Context(), p.Engine, teststores.OrderKey("ada"), func(ctx context.Context) (int64, error) {
		a, _ := retrysafe.AttemptFrom(ctx)
		force := retrysafe.Resolution{Fence: a.Fence(), Force: true, Outcome: retrysafe.NotDone}
		assert.NoError(t, p.Engine.Resolve(ctx, teststores.OrderKey("ada"), force), "a person lets it run again")
		return retrysafe.StepTx(ctx, p.Store, "order", p.insertRow)
	})
	assert.ErrorIs(t, err, retrysafe.ErrLeaseLost, "the call")
	assert.Equal(t, p.Orders(t, "ada"), 0, "orders")
}

// TestStepTxNeedsTheStoreOfItsEngine: the record must be in the transaction's database.
func TestStepTxNeedsTheStoreOfItsEngine(t *testing.T) {
	t.Parallel()
	s := shops.NewFile(t)
	p := &packing{&shops.Shop{Store: s.Store, DB: s.DB, Engine: teststores.Engine(t, memstore.New(nil))}, t}
	err := p.doStep(p.insertRow)
	assert.ErrorIs(t, err, retrysafe.ErrLeaseLost, "a step in another database")
	assert.Contains(t, err.Error(), "give StepTx the engine's own store", "the error")
	assert.Equal(t, p.Orders(t, "ada"), 0, "orders")
}

// TestSQLiteStepTxLongerThanTheLease: heartbeats wait for the file, so a step that is longer than
// the lease is rolled back.
func TestSQLiteStepTxLongerThanTheLease(t *testing.T) {
	t.Parallel()
	p := &packing{shops.NewFile(t), t}
	_, err := retrysafe.Do(t.Context(), p.Engine, teststores.OrderKey("ada"), func(ctx context.Context) (int64, error) {
		return retrysafe.StepTx(ctx, p.Store, "order", func(ctx context.Context, tx *sql.Tx) (int64, error) {
			id, err := p.insertRow(ctx, tx)
			<-ctx.Done()
			return id, err
		})
	}, retrysafe.WithPolicy(retrysafe.Policy{Lease: 200 * time.Millisecond, OnDoubt: retrysafe.Reexecute}))
	assert.True(t, err != nil, "the call")
	assert.Equal(t, p.Orders(t, "ada"), 0, "orders")
}

// TestServerStepTx: steps in transactions on databases with concurrent writers.
func TestServerStepTx(t *testing.T) {
	t.Parallel()
	shops.EachServer(t, func(t *testing.T, server shops.Database) {
		t.Helper()
		for name, part := range map[string]func(*testing.T, func(*testing.T) *shops.Shop){
			"ends": stepTxEnds, "ended by the work": stepTxEndedByTheWork, "of a stale holder": stepTxOfAStaleHolder,
		} {
			// one after the other: they share tables
			t.Run(name, func(t *testing.T) { part(t, server.Shop) })
		}
	})
}

// TestServerStepTxHeartbeats: the lease is renewed during a step, since no call waits for the row.
func TestServerStepTxHeartbeats(t *testing.T) {
	t.Parallel()
	shops.EachServer(t, func(t *testing.T, server shops.Database) {
		t.Helper()
		p := &packing{server.Shop(t), t}
		const lease = 12 * time.Second // heartbeats are sent after a third of it
		left := func() time.Duration {
			rec, err := p.Engine.Lookup(t.Context(), teststores.OrderKey("ada"))
			assert.NoError(t, err, "Lookup")
			return rec.LeaseLeft
		}
		_, err := retrysafe.Do(t.Context(), p.Engine, teststores.OrderKey("ada"), func(ctx context.Context) (int64, error) {
			return retrysafe.StepTx(ctx, p.Store, "order", func(ctx context.Context, tx *sql.Tx) (int64, error) {
				id, err := p.insertRow(ctx, tx)
				last := left()
				waits.Until(ctx, func() bool { now := left(); renewed := now > last; last = now; return renewed })
				return id, errors.Join(err, ctx.Err())
			})
		}, retrysafe.WithPolicy(retrysafe.Policy{Lease: lease, OnDoubt: retrysafe.Reexecute}))
		assert.NoError(t, err, "the call")
		assert.Equal(t, p.Orders(t, "ada"), 1, "orders")
	})
}
