package sql_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/integration/internal/servers"
	"github.com/retrysafe/retrysafe/integration/internal/sqltest"
	"github.com/retrysafe/retrysafe/integration/internal/teststores"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/shardstore"
	"github.com/retrysafe/retrysafe/sqlstore"
	"github.com/retrysafe/retrysafe/storeapi"
)

// threeDatabases are shards on each kind of database, with a table for effects in each.
type threeDatabases struct {
	stores  map[string]storeapi.Store
	txs     map[string]storeapi.TxStore[*sql.Tx]
	dbs     map[string]*sql.DB
	inserts map[string]string
}

func newThreeDatabases(t *testing.T) *threeDatabases {
	t.Helper()
	d := &threeDatabases{
		stores: map[string]storeapi.Store{}, txs: map[string]storeapi.TxStore[*sql.Tx]{}, dbs: map[string]*sql.DB{},
		inserts: map[string]string{"file": `INSERT INTO effects VALUES (?)`, "maria": `INSERT INTO effects VALUES (?)`, "server": `INSERT INTO effects VALUES ($1)`},
	}
	add := func(name string, s *sqlstore.Store, db *sql.DB) {
		d.stores[name], d.txs[name], d.dbs[name] = s, s, db
		_, err := db.ExecContext(t.Context(), `CREATE TABLE effects (id varchar(50))`)
		assert.NoError(t, err, "a table of effects")
	}
	file, db := teststores.OpenSQLite(t, sqltest.NewFile(t), nil)
	add("file", file, db)
	table, db := teststores.Postgres(t, servers.StartPostgres(t).URL(), nil)
	add("server", table, db)
	maria, db := teststores.MySQL(t, servers.StartMySQL(t).DSN(), nil)
	add("maria", maria, db)
	return d
}

// effects returns how often each key had its effect, over all databases.
func (d *threeDatabases) effects(t *testing.T) map[string]int {
	t.Helper()
	all := map[string]int{}
	for name, db := range d.dbs {
		countEffects(t, name, db, all)
	}
	return all
}

// countEffects adds the effects on one database to all.
func countEffects(t *testing.T, name string, db *sql.DB, all map[string]int) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), `SELECT id FROM effects`)
	assert.NoError(t, err, "the effects on %s", name)
	defer rows.Close()
	for rows.Next() {
		var id string
		assert.NoError(t, rows.Scan(&id), "an effect")
		all[id]++
	}
	assert.NoError(t, rows.Err(), "the effects on %s", name)
}

// pay runs a transaction whose effect is a row beside its record. It calls wait after it has
// written the row, before COMMIT.
func (d *threeDatabases) pay(ctx context.Context, e *retrysafe.Engine, tx storeapi.TxStore[*sql.Tx], id string, wait func()) (retrysafe.Result[string], error) {
	return retrysafe.DoTx(ctx, e, tx, retrysafe.Key{Operation: "pay", ID: id}, func(ctx context.Context, tx *sql.Tx) (string, error) {
		name := shardstore.ShardOf(ctx)
		_, err := tx.ExecContext(ctx, d.inserts[name], id)
		wait()
		return "paid " + id, err
	})
}

// TestShardsChangeTx: keys whose effect is in the transaction of their record move from SQLite to
// PostgreSQL to MariaDB under the calls of two engines. Each has its effect once, and its answer is
// there after every move, although it is kept for an hour. A transaction that stays open during a
// whole move commits nothing in the database that its key has left.
func TestShardsChangeTx(t *testing.T) {
	t.Parallel()
	d := newThreeDatabases(t)
	_, err := shardstore.New(t.Context(), map[string]storeapi.Store{"file": d.stores["file"]}, &shardstore.Options{Lease: 300 * time.Millisecond})
	assert.NoError(t, err, "the first map")
	var engines []*retrysafe.Engine
	var txs []storeapi.TxStore[*sql.Tx]
	for range 2 {
		s, err := shardstore.New(t.Context(), d.stores, nil)
		assert.NoError(t, err, "a store over shards")
		tx, err := shardstore.NewTx(s, d.txs)
		assert.NoError(t, err, "transactions over shards")
		e := retrysafe.New(s, &retrysafe.Options{Namespace: "shards"}).WithPolicy(retrysafe.Policy{Retention: time.Hour, Wait: 10 * time.Second})
		t.Cleanup(func() { _ = e.Shutdown(context.Background()) })
		engines, txs = append(engines, e), append(txs, tx)
	}
	until := func(i int, id string, wait func()) string {
		for end := time.Now().Add(3 * time.Minute); ; <-time.After(20 * time.Millisecond) {
			got, err := d.pay(t.Context(), engines[i], txs[i], id, wait)
			if err == nil {
				return got.Value
			}
			if !errors.Is(err, retrysafe.ErrUnavailable) && !errors.Is(err, retrysafe.ErrInProgress) || time.Now().After(end) {
				t.Errorf("%s: %v", id, err)
				return ""
			}
		}
	}
	keys := 0
	for _, names := range [][]string{{"file", "server"}, {"maria", "server"}, {"maria"}, {"file", "maria", "server"}} {
		changed := make(chan struct{})
		open := make(chan struct{})
		var once sync.Once
		var calls sync.WaitGroup
		calls.Go(func() {
			// This transaction is open when the change begins. SQLite would let no other write
			// meanwhile, nor the map.
			if keys == 0 {
				close(open)
				return
			}
			id := fmt.Sprint("long ", keys)
			assert.Equal(t, until(0, id, func() {
				once.Do(func() {
					close(open)
					<-time.After(2 * time.Second)
				})
			}), "paid "+id, "answer of a long transaction")
		})
		<-open
		go func() {
			defer close(changed)
			for {
				m, err := shardstore.Change(t.Context(), d.stores, names)
				var blocked *shardstore.BlockedError
				if errors.As(err, &blocked) || errors.Is(err, retrysafe.ErrUnavailable) {
					<-time.After(20 * time.Millisecond)
					continue
				}
				if err != nil || m.Moving() {
					t.Errorf("Change to %q: %+v, %v", names, m, err)
				}
				return
			}
		}()
		for g := range 2 {
			calls.Go(func() {
				for n := keys; ; n++ {
					id := fmt.Sprint("key ", n)
					if got := until(g, id, func() {}); got != "paid "+id {
						t.Errorf("%s is answered %q", id, got)
						return
					}
					select {
					case <-changed:
						return
					case <-time.After(5 * time.Millisecond):
					}
				}
			})
		}
		calls.Wait()
		all := d.effects(t)
		for id, n := range all {
			assert.Equal(t, n, 1, "effects of %s after the change to %q", id, names)
			assert.Equal(t, until(1, id, func() { t.Errorf("%s runs again", id) }), "paid "+id, "answer after the change")
		}
		t.Logf("%d keys have paid once, after the change to %q", len(all), names)
		keys += 100_000
	}
}

// TestShardsTxNeedsAll: a setup that cannot keep the guarantee is refused at the start.
func TestShardsTxNeedsAll(t *testing.T) {
	t.Parallel()
	file, _ := teststores.OpenSQLite(t, sqltest.NewFile(t), nil)
	s, err := shardstore.New(t.Context(), map[string]storeapi.Store{"file": file}, nil)
	assert.NoError(t, err, "a store over one shard")
	_, err = shardstore.NewTx(s, map[string]storeapi.TxStore[*sql.Tx]{})
	assert.True(t, err != nil, "a shard without transactions")
	_, err = shardstore.NewTx(s, map[string]storeapi.TxStore[*sql.Tx]{"file": file, "other": file})
	assert.True(t, err != nil, "transactions without a shard")
}
