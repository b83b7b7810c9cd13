package sql_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
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
	"github.com/retrysafe/retrysafe/storetest"
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
	}, storetest.Features{Issuer: true, Limiter: true, UsageReader: true, Lister: true, Sweeper: true, Durable: true})
}

// TestShardsChange: from a SQLite file to that file and a PostgreSQL server, under the calls of two
// engines: each key runs once.
func TestShardsChange(t *testing.T) {
	t.Parallel()
	server := servers.StartPostgres(t)
	file, _ := teststores.OpenSQLite(t, sqltest.NewFile(t), nil)
	table, _ := teststores.Postgres(t, server.URL(), &sqlstore.Options{Table: teststores.NewTable()})
	_, err := shardstore.New(t.Context(), map[string]storeapi.Store{"file": file}, &shardstore.Options{Lease: 200 * time.Millisecond})
	assert.NoError(t, err, "the first map")
	all := map[string]storeapi.Store{"file": file, "server": table}
	const retention = 3 * time.Second
	var engines []*retrysafe.Engine
	for range 2 {
		s, err := shardstore.New(t.Context(), all, nil)
		assert.NoError(t, err, "a store over shards")
		e := retrysafe.New(s, &retrysafe.Options{Namespace: "shards"}).WithPolicy(retrysafe.Policy{Lease: retention, Retention: retention})
		t.Cleanup(func() { _ = e.Shutdown(t.Context()) })
		engines = append(engines, e)
	}
	const keys = 200
	var runs [keys]atomic.Int32
	var ended [keys]atomic.Int64 // since begun, plus one
	begun := time.Now()
	var refused sync.Map // a caller's error, by key
	changed := make(chan error, 1)
	go func() {
		for {
			_, err := shardstore.Change(t.Context(), all, []string{"file", "server"})
			var blocked *shardstore.BlockedError
			if !errors.As(err, &blocked) {
				changed <- err
				return
			}
			<-time.After(50 * time.Millisecond) // records expire
		}
	}()
	for i := range keys {
		done := make(chan struct{})
		for _, e := range engines {
			go func() {
				defer func() { done <- struct{}{} }()
				key := retrysafe.Key{Operation: "pay", ID: fmt.Sprint(i)}
				a, _, err := e.Begin(t.Context(), key)
				// A busy machine may have let the lease expire.
				for errors.Is(err, retrysafe.ErrUnavailable) {
					a, _, err = e.Begin(t.Context(), key)
				}
				if err != nil || a == nil {
					if err != nil {
						refused.Store(i, err)
					}
					return
				}
				// On a slow machine the second caller may come after the answer has expired.
				n, end := runs[i].Add(1), time.Duration(ended[i].Load())
				if n > 1 && (end == 0 || time.Since(begun) < end+retention*9/10) {
					t.Errorf("key %d ran again; the first run ended at %v, and now it is %v", i, end, time.Since(begun))
				}
				ended[i].Store(int64(time.Since(begun)) + 1) // the retention does not begin before
				if err := a.Complete(t.Context(), retrysafe.Answer{Codec: "raw", Body: []byte("paid"), Kept: true}); err != nil {
					t.Errorf("Complete: %v", err)
				}
			}()
		}
		<-done
		<-done
	}
	assert.NoError(t, <-changed, "Change")
	once := 0
	for i := range runs {
		n := runs[i].Load()
		once += int(min(n, 1))
		if err, _ := refused.Load(i); n == 0 {
			t.Logf("key %d did not run: %v", i, err)
		}
	}
	// While a key moves, a slow machine may refuse both of its callers.
	assert.True(t, once > keys/2, "%d of %d keys ran", once, keys)
	page, err := table.List(t.Context(), storeapi.ListRequest{Namespace: "shards"})
	assert.NoError(t, err, "list")
	t.Logf("%d of %d keys ran once; the server has %d records", once, keys, len(page.Records))
}
