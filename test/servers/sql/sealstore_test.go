package sql_test

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/sealstore"
	"github.com/retrysafe/retrysafe/stores/sqlstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/stores/storetest"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
	"github.com/retrysafe/retrysafe/test/servers/internal/sqltest"
	"github.com/retrysafe/retrysafe/test/servers/internal/teststores"
)

// TestSealedSQLiteStore and TestSealedPostgresStore run the contract over a sealed store whose data
// keys are in the same tables.
func TestSealedSQLiteStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) storetest.Backend {
		t.Helper()
		path, clock, ring := sqltest.NewFile(t), storetest.NewClock(), sealstore.NewRing("a")
		open := func() storeapi.Store {
			store, _ := teststores.OpenSQLite(t, path, &sqlstore.Options{Now: clock.Now})
			return sealstore.New(store, ring, &sealstore.Options{OnlySealed: true})
		}
		return storetest.Backend{Store: open(), Advance: clock.Advance, Reopen: open}
	}, storetest.Features{Issuer: true, Limiter: true, UsageReader: true, Forgetter: true, Lister: true, Sweeper: true, Durable: true})
}

func TestSealedPostgresStore(t *testing.T) {
	t.Parallel()
	server := servers.StartPostgres(t)
	features := postgresFeatures
	features.Transactions = false // its clause holds rows, which are those of the inner store
	storetest.Run(t, func(t *testing.T) storetest.Backend {
		t.Helper()
		b, ring := postgresBackend(t, server), sealstore.NewRing("a")
		seal := func(s storeapi.Store) storeapi.Store {
			return sealstore.New(s, ring, &sealstore.Options{OnlySealed: true})
		}
		reopen := b.Reopen
		return storetest.Backend{Store: seal(b.Store), Reopen: func() storeapi.Store { return seal(reopen()) }}
	}, features)
}

// TestSealedTransactions: DoTx and StepTx store sealed answers and progress, also if the data keys
// are in the tables of the transaction. A duplicate gets the answer, and a forgotten tenant's work
// does not run again.
func TestSealedTransactions(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(*testing.T) (*sqlstore.Store, *sql.DB){
		"sqlite": func(t *testing.T) (*sqlstore.Store, *sql.DB) {
			t.Helper()
			return teststores.OpenSQLite(t, sqltest.NewFile(t), nil)
		},
		"postgres": func(t *testing.T) (*sqlstore.Store, *sql.DB) {
			t.Helper()
			return teststores.Postgres(t, servers.StartPostgres(t).URL(), nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inner, db := open(t)
			sqltest.Exec(t, db, `CREATE TABLE effects (id varchar(50))`)
			sealed := sealstore.New(inner, sealstore.NewRing("a"), nil)
			e, tx := teststores.Engine(t, sealed), sealstore.NewTx(sealed, inner)
			key := retrysafe.Key{Tenant: "ada", Operation: "charge", ID: "1"}
			pay := func(tx storeapi.TxStore[*sql.Tx], key retrysafe.Key) (retrysafe.Result[string], error) {
				return retrysafe.DoTx(t.Context(), e, tx, key, func(ctx context.Context, tx *sql.Tx) (string, error) {
					_, err := tx.ExecContext(ctx, `INSERT INTO effects VALUES ('x')`)
					if key.ID == "refused" {
						return "", retrysafe.Permanent("declined", errors.New("answer-plaintext"))
					}
					return "answer-plaintext", err
				})
			}
			for range 2 {
				res, err := pay(tx, key)
				assert.True(t, err == nil && res.Value == "answer-plaintext", "DoTx: %+v, %v", res, err)
				_, err = pay(tx, retrysafe.Key{Tenant: "ada", Operation: "charge", ID: "refused"})
				var f *retrysafe.Failure
				assert.True(t, errors.As(err, &f) && f.Message == "answer-plaintext", "a refusal: %v", err)
			}
			assert.Equal(t, sqltest.Count(t, db, "effects"), 1, "effects")
			stepsInTx(t, e, tx)
			inClear(t, inner, db)
			foreign := sealstore.New(inner, sealstore.NewRing("b"), nil)
			_, err := pay(sealstore.NewTx(foreign, inner), key)
			assert.ErrorIs(t, err, retrysafe.ErrAnswerSealed, "a duplicate without the master key")
			_, err = pay(sealstore.NewTx(foreign, inner), retrysafe.Key{Tenant: "ada", Operation: "charge", ID: "new"})
			assert.ErrorIs(t, err, retrysafe.ErrUnavailable, "new work without the master key")
			assert.NoError(t, sealed.Forget(t.Context(), sealstore.Tenant{Namespace: "app", Name: "ada"}), "forget")
			_, err = pay(tx, key)
			assert.ErrorIs(t, err, retrysafe.ErrAnswerSealed, "a duplicate of a forgotten tenant")
			assert.Equal(t, sqltest.Count(t, db, "effects"), 2, "effects: one of DoTx and one of StepTx")
		})
	}
}

// stepsInTx runs a call whose first attempt ends after its step. The next one finds the step.
func stepsInTx(t *testing.T, e *retrysafe.Engine, db storeapi.StepStore[*sql.Tx]) {
	t.Helper()
	e = e.WithPolicy(retrysafe.Policy{OnDoubt: retrysafe.Reexecute, Lease: time.Minute, Retention: time.Hour})
	for attempt := range 2 {
		res, err := retrysafe.Do(t.Context(), e, retrysafe.Key{Tenant: "ada", Operation: "order", ID: "1"}, func(ctx context.Context) (string, error) {
			got, err := retrysafe.StepTx(ctx, db, "pay", func(ctx context.Context, tx *sql.Tx) (string, error) {
				_, err := tx.ExecContext(ctx, `INSERT INTO effects VALUES ('step')`)
				return "step-plaintext", err
			})
			if err == nil && attempt == 0 {
				err = errors.New("error-plaintext")
			}
			return got, err
		})
		assert.Equal(t, err == nil, attempt == 1, "attempt %d: %v", attempt, err)
		assert.Equal(t, res.Value, map[bool]string{true: "step-plaintext"}[attempt == 1], "the answer")
	}
}

// inClear wants no text of the work in the tables.
func inClear(t *testing.T, s storeapi.Lister, db *sql.DB) {
	t.Helper()
	page, err := s.List(t.Context(), storeapi.ListRequest{})
	assert.NoError(t, err, "list")
	assert.True(t, len(page.Records) == 4, "three records and a data key: %v", page.Records)
	rows, err := db.QueryContext(t.Context(), `SELECT data, answer FROM retrysafe_records`)
	assert.NoError(t, err, "the table")
	defer rows.Close()
	n := 0
	for rows.Next() {
		var data, answer []byte
		assert.NoError(t, rows.Scan(&data, &answer), "a row")
		assert.True(t, !strings.Contains(string(data)+string(answer), "plaintext"), "text in the clear: %q %q", data, answer)
		n++
	}
	assert.NoError(t, rows.Err(), "the table")
	assert.Equal(t, n, 4, "rows")
}

// TestNothingInTheFile: neither a SQLite file nor its log have a text of the work. Without the seal
// they have it, so the test can fail.
func TestNothingInTheFile(t *testing.T) {
	t.Parallel()
	for _, seals := range []bool{false, true} {
		path := sqltest.NewFile(t)
		inner, _ := teststores.OpenSQLite(t, path, nil)
		store := storeapi.Store(inner)
		if seals {
			store = sealstore.New(inner, sealstore.NewRing("a"), nil)
		}
		e := teststores.Engine(t, store).WithPolicy(retrysafe.Policy{OnDoubt: retrysafe.Reexecute})
		for _, id := range []string{"done", "half-done", "refused"} {
			_, _ = retrysafe.Do(t.Context(), e, retrysafe.Key{Tenant: "ada", Operation: "charge", ID: id}, func(ctx context.Context) (string, error) {
				_, err := retrysafe.Step(ctx, "pay", func(context.Context) (string, error) { return "step-plaintext", nil })
				switch id {
				case "half-done":
					return "", errors.New("error-plaintext")
				case "refused":
					return "", retrysafe.Permanent("no", errors.New("refusal-plaintext"))
				}
				return "answer-plaintext", err
			})
		}
		var all strings.Builder
		for _, file := range []string{path, path + "-wal"} {
			text, err := os.ReadFile(file)
			assert.True(t, err == nil || os.IsNotExist(err), "read: %v", err)
			all.Write(text)
		}
		for _, text := range []string{"step-plaintext", "error-plaintext", "refusal-plaintext", "answer-plaintext"} {
			assert.Equal(t, strings.Contains(all.String(), text), !seals, "%s is in the file, sealed %v", text, seals)
		}
	}
}
