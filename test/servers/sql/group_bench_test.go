package sql_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/sqlstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
	"github.com/retrysafe/retrysafe/test/servers/internal/sqltest"
	"github.com/retrysafe/retrysafe/test/servers/internal/teststores"
)

// BenchmarkGroupCommit compares calls of 64 callers that share transactions with calls that have
// one each, in turn, on durable databases: new keys begun and completed, and replays.
func BenchmarkGroupCommit(b *testing.B) {
	postgres := servers.StartPostgres(b, "-c", "fsync=on", "-c", "full_page_writes=on", "-c", "synchronous_commit=on").URL()
	mysql := servers.StartMySQL(b, "--innodb-flush-log-at-trx-commit=1", "--innodb-flush-method=fsync", "--innodb-buffer-pool-size=128M").DSN()
	for _, on := range []struct {
		name, driver, dsn string
		dialect           sqlstore.Dialect
	}{
		{"SQLite", "sqlite", sqltest.SQLiteDSN(b.TempDir() + "/group.db"), sqlstore.SQLite},
		{"PostgreSQL", "pgx", postgres, sqlstore.PostgreSQL},
		{"MariaDB", "mysql", mysql, sqlstore.MySQL},
	} {
		stores := map[string]*sqlstore.Store{}
		for _, way := range []string{"together", "separate"} {
			db := sqltest.Open(b, on.driver, on.dsn)
			db.SetMaxOpenConns(16)
			s, err := sqlstore.New(db, on.dialect, &sqlstore.Options{
				Table: teststores.NewTable(), NoGroupCommit: way == "separate", Logger: slog.New(slog.DiscardHandler), LockWait: time.Minute,
			})
			assert.NoError(b, err, "a store")
			assert.NoError(b, s.Migrate(b.Context()), "Migrate")
			stores[way] = s
		}
		b.Run(on.name, func(b *testing.B) {
			b.ReportMetric(0, "ns/op")
			for way, s := range stores {
				keys := b.N
				if way == "separate" {
					keys = b.N/8 + 1
				}
				g := &grouped{store: s, space: fmt.Sprint("bench", b.N)}
				b.ReportMetric(g.measureRate(b, keys, g.complete), way+"-keys/s")
				b.ReportMetric(g.measureRate(b, keys, g.replay), way+"-replays/s")
			}
		})
	}
}

// grouped calls a store.
type grouped struct {
	store *sqlstore.Store
	space string
}

// measureRate makes calls for n keys by 64 callers and returns how many a second were made.
func (g *grouped) measureRate(b *testing.B, n int, call func(ctx context.Context, i int) error) float64 {
	b.Helper()
	var next atomic.Int64
	var all sync.WaitGroup
	begun := time.Now()
	for range 64 {
		all.Go(func() {
			for i := int(next.Add(1)); i <= n; i = int(next.Add(1)) {
				if err := call(b.Context(), i); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	return float64(n) / time.Since(begun).Seconds()
}

func (g *grouped) acquire(ctx context.Context, i int) (storeapi.Acquired, error) {
	r := storeapi.AcquireRequest{
		Key:         storeapi.StoreKey{Namespace: g.space, Layer: "fn", Key: storeapi.Key{Tenant: "bench", Operation: "bench", ID: fmt.Sprint(i)}},
		Fingerprint: make([]byte, 33), Lease: time.Minute, Retention: time.Hour, OnDoubt: storeapi.Refuse,
	}
	_, _ = rand.Read(r.Owner[:])
	return g.store.Acquire(ctx, r)
}

func (g *grouped) complete(ctx context.Context, i int) error {
	got, err := g.acquire(ctx, i)
	if err == nil && got.Status != storeapi.StatusAcquired {
		err = fmt.Errorf("a new key is %v", got.Status)
	}
	if err != nil {
		return err
	}
	_, err = g.store.Complete(ctx, storeapi.CompleteRequest{
		Key: got.Record.Key, Owner: got.Record.Owner, Fence: got.Record.Fence, State: storeapi.StateCompleted,
		Answer: storeapi.Answer{Codec: "raw", Kept: true, Body: make([]byte, 256)}, Retention: time.Hour, Quiet: true,
	})
	return err
}

func (g *grouped) replay(ctx context.Context, i int) error {
	got, err := g.acquire(ctx, i)
	if err == nil && got.Status != storeapi.StatusFinished {
		err = fmt.Errorf("a finished key is %v", got.Status)
	}
	return err
}
