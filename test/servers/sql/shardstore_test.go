package sql_test

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/shardstore"
	"github.com/retrysafe/retrysafe/stores/sqlstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/stores/storetest"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
	"github.com/retrysafe/retrysafe/test/servers/internal/sqltest"
	"github.com/retrysafe/retrysafe/test/servers/internal/teststores"
)

// TestShardStore runs the contract over a SQLite file and a PostgreSQL server, each with its share
// of the keys.
func TestShardStore(t *testing.T) {
	t.Parallel()
	server := servers.StartPostgres(t)
	storetest.Run(t, func(t *testing.T) storetest.Backend {
		t.Helper()
		file, _ := teststores.OpenSQLite(t, sqltest.NewFile(t), nil)
		table, _ := teststores.Postgres(t, server.URL(), &sqlstore.Options{Table: teststores.NewTable()})
		all := map[string]storeapi.Store{"file": file, "server": table}
		open := func() storeapi.Store {
			s, err := shardstore.New(t.Context(), all, nil)
			assert.NoError(t, err, "a store over shards")
			return s
		}
		return storetest.Backend{Store: open(), Reopen: open}
	}, storetest.Features{Issuer: true, Limiter: true, UsageReader: true, Forgetter: true, Lister: true, Sweeper: true, Durable: true})
}

// databases are shards on each kind of database, with a table for effects in each.
type databases struct {
	stores  map[string]storeapi.Store
	txs     map[string]storeapi.TxStore[*sql.Tx]
	dbs     map[string]*sql.DB
	inserts map[string]string
}

func newDatabases(t *testing.T) *databases {
	t.Helper()
	d := &databases{
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

// countEffects adds the number of each key's effects on one database to all.
func (d *databases) countEffects(t *testing.T, name string, all map[string]int) {
	t.Helper()
	rows, err := d.dbs[name].QueryContext(t.Context(), `SELECT id FROM effects`)
	assert.NoError(t, err, "the effects on %s", name)
	defer rows.Close()
	for rows.Next() {
		var id string
		assert.NoError(t, rows.Scan(&id), "an effect")
		all[id]++
	}
	assert.NoError(t, rows.Err(), "the effects on %s", name)
}

// TestShardsTx: a transaction runs on the database that has the record of its key. Two engines call
// at the same time for each key: it has its effect once, in the database that Home names, beside
// its record. So it is by Pick and by a function of the application.
func TestShardsTx(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]*shardstore.Options{"Pick": nil, "Options.Home": {Home: func(key storeapi.StoreKey) string {
		return []string{"file", "server", "maria"}[len(key.ID)%3]
	}}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDatabases(t)
			const keys = 30
			type outcome struct {
				res retrysafe.Result[string]
				err error
			}
			outcomes := make(chan outcome)
			var stores []*shardstore.Store
			for range 2 {
				s, err := shardstore.New(t.Context(), d.stores, o)
				assert.NoError(t, err, "a store over shards")
				tx, err := shardstore.NewTx(s, d.txs)
				assert.NoError(t, err, "transactions over shards")
				e := retrysafe.New(s, &retrysafe.Options{Namespace: "shards", Policy: retrysafe.Policy{Wait: time.Minute}})
				t.Cleanup(func() { _ = e.Shutdown(context.Background()) })
				stores = append(stores, s)
				for i := range keys {
					go func() {
						res, err := retrysafe.DoTx(t.Context(), e, tx, idOfShards(i), func(ctx context.Context, tx *sql.Tx) (string, error) {
							shard := shardstore.ShardOf(ctx)
							_, err := tx.ExecContext(ctx, d.inserts[shard], idOfShards(i).ID)
							return shard, err
						})
						outcomes <- outcome{res, err}
					}()
				}
			}
			for range 2 * keys {
				got := <-outcomes
				assert.NoError(t, got.err, "DoTx")
			}
			all := map[string]int{}
			for shard := range d.dbs {
				mine := map[string]int{}
				d.countEffects(t, shard, mine)
				for id := range mine {
					key := storeapi.StoreKey{Namespace: "shards", Layer: "tx", Key: retrysafe.Key{Operation: "pay", ID: id}}
					home, err := stores[1].Home(key)
					assert.NoError(t, err, "home")
					assert.Equal(t, home, shard, "the database with the effect of %s", id)
					rec, err := d.stores[shard].Lookup(t.Context(), key)
					assert.True(t, err == nil && rec.State == storeapi.StateCompleted, "the record of %s there: %v, %v", id, rec, err)
					all[id] += mine[id]
				}
				assert.True(t, len(mine) > 0, "%s has effects", shard)
			}
			assert.Equal(t, len(all), keys, "keys with an effect")
			for id, n := range all {
				assert.Equal(t, n, 1, "effects of %s", id)
			}
		})
	}
}

func idOfShards(i int) retrysafe.Key {
	return retrysafe.Key{Operation: "pay", ID: fmt.Sprintf("%0*d", 2+i%3, i)}
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
