package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/idgen"
	"github.com/retrysafe/retrysafe/stores/shardstore"
	"github.com/retrysafe/retrysafe/stores/sqlstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

const table = `CREATE TABLE IF NOT EXISTS orders (id TEXT PRIMARY KEY, item TEXT NOT NULL)`

type shop struct {
	shards  map[string]*sql.DB // by name; a name means the same database for ever
	records *shardstore.TxStore[*sql.Tx]
	engine  *retrysafe.Engine
	pause   time.Duration
}

func runShop(ctx context.Context, listen, shards string, pause time.Duration) error {
	s := &shop{shards: map[string]*sql.DB{}, pause: pause}
	stores, transactions := map[string]storeapi.Store{}, map[string]storeapi.TxStore[*sql.Tx]{}
	for shard := range strings.FieldsSeq(shards) {
		name, url, ok := strings.Cut(shard, "=")
		if !ok || s.shards[name] != nil {
			return fmt.Errorf("-shards: %q: write NAME=URL, each name once", shard)
		}
		db, store, err := openShard(ctx, url)
		if err != nil {
			return fmt.Errorf("shard %s: %w", name, err)
		}
		defer db.Close()
		s.shards[name], stores[name], transactions[name] = db, store, store
	}
	store, err := shardstore.New(ctx, stores, nil)
	if err != nil {
		return err
	}
	if s.records, err = shardstore.NewTx(store, transactions); err != nil {
		return err
	}
	s.engine = retrysafe.New(store, &retrysafe.Options{Namespace: "shop", Policy: retrysafe.Policy{Wait: 5 * time.Second}})
	mux := http.NewServeMux()
	mux.HandleFunc("POST /orders", s.postOrder)
	mux.HandleFunc("GET /orders/{shard}/{id}", s.getOrder)
	mux.HandleFunc("GET /counts", s.getCounts)
	err = listenAndServe(ctx, listen, mux)
	return errors.Join(err, s.engine.Shutdown(context.WithoutCancel(ctx)))
}

// openShard opens a shard, with the tables of the shop and of retrysafe.
func openShard(ctx context.Context, url string) (*sql.DB, *sqlstore.Store, error) {
	db, err := sql.Open("pgx", url)
	if err != nil {
		return nil, nil, err
	}
	store, err := sqlstore.New(db, sqlstore.PostgreSQL, nil)
	if err == nil {
		err = store.Migrate(ctx)
	}
	if err == nil {
		_, err = db.ExecContext(ctx, table)
	}
	return db, store, err
}

// placeOrder inserts an order once for each key, on the shard of the key. The id names the shard:
// rows stay where they are if the list of shards changes later.
func (s *shop) placeOrder(ctx context.Context, key retrysafe.Key, item string) (retrysafe.Result[string], error) {
	return retrysafe.DoTx(ctx, s.engine, s.records, key, func(ctx context.Context, tx *sql.Tx) (string, error) {
		id := shardstore.ShardOf(ctx) + "/" + idgen.UUIDv7().String()
		if _, err := tx.ExecContext(ctx, "INSERT INTO orders (id, item) VALUES ($1, $2)", id, item); err != nil {
			return "", err
		}
		if s.pause > 0 {
			log.Printf("paused for %v before the commit: kill me", s.pause)
		}
		select {
		case <-time.After(s.pause):
			return id, nil
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}, retrysafe.WithPayload(item))
}

func (s *shop) postOrder(w http.ResponseWriter, r *http.Request) {
	user, _, _ := r.BasicAuth() // add your own login: this does not check the password
	id, err := httpidem.ParseKey(r.Header.Values("Idempotency-Key"))
	if err != nil || r.FormValue("item") == "" {
		http.Error(w, "send an Idempotency-Key and an item", http.StatusBadRequest)
		return
	}
	res, err := s.placeOrder(r.Context(), retrysafe.Key{Tenant: user, Operation: "order", ID: id}, r.FormValue("item"))
	switch {
	case errors.Is(err, retrysafe.ErrFingerprintMismatch):
		http.Error(w, "this key was used for another order; use a new key", http.StatusUnprocessableEntity)
	case err != nil: // no other shard is asked: the key has one home
		log.Print("an order has no answer: ", err)
		w.Header().Set("Retry-After", "1")
		http.Error(w, "send it again with the same key", http.StatusServiceUnavailable)
	default:
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, "/orders/%s\n", res.Value)
	}
}

func (s *shop) getOrder(w http.ResponseWriter, r *http.Request) {
	db := s.shards[r.PathValue("shard")]
	if db == nil {
		http.NotFound(w, r)
		return
	}
	var item string
	err := db.QueryRowContext(r.Context(), "SELECT item FROM orders WHERE id = $1", r.PathValue("shard")+"/"+r.PathValue("id")).Scan(&item)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		http.NotFound(w, r)
	case err != nil:
		http.Error(w, "the shard does not answer", http.StatusServiceUnavailable)
	default:
		fmt.Fprintln(w, item)
	}
}

func (s *shop) getCounts(w http.ResponseWriter, r *http.Request) {
	for _, name := range slices.Sorted(maps.Keys(s.shards)) {
		var n int
		if err := s.shards[name].QueryRowContext(r.Context(), "SELECT count(*) FROM orders").Scan(&n); err != nil {
			fmt.Fprintf(w, "%s: does not answer\n", name)
			continue
		}
		fmt.Fprintf(w, "%s: %d\n", name, n)
	}
}
