package sql_test

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/integration/internal/servers"
	"github.com/retrysafe/retrysafe/integration/internal/teststores"
	"github.com/retrysafe/retrysafe/integration/internal/waits"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/storeapi"
)

// TestMySQLWaitTxKeepsNoLock: also with autocommit off, the lock that WaitTx waits with ends
// with the call, and does not stay with a connection of the pool.
func TestMySQLWaitTxKeepsNoLock(t *testing.T) {
	t.Parallel()
	server := servers.StartMySQL(t)
	plain, _ := teststores.MySQL(t, server.DSN(), nil)
	off, _ := teststores.MySQL(t, server.DSN("autocommit=0"), nil)
	lock := teststores.Request("the first map")
	_, err := plain.Acquire(t.Context(), lock)
	assert.NoError(t, err, "the record that is locked")
	run := func(id string) error {
		ctx, cancel := context.WithTimeout(t.Context(), waits.Patience)
		defer cancel()
		r := storeapi.TxRequest{Key: teststores.Request(id).Key, Owner: storeapi.Owner{1, 2, 3}, Retention: time.Hour}
		r.Gate = &storeapi.TxGate{Lock: lock.Key, Check: func(context.Context, func(storeapi.StoreKey) (retrysafe.Record, error)) error { return nil }}
		_, err := plain.RunTx(ctx, r, func(context.Context, *sql.Tx) (retrysafe.State, retrysafe.Answer, error) {
			return retrysafe.StateCompleted, retrysafe.Answer{}, nil
		})
		return err
	}
	assert.NoError(t, run("before"), "a transaction before")
	assert.NoError(t, off.WaitTx(t.Context(), lock.Key), "WaitTx")
	assert.NoError(t, run("after"), "a transaction after it")
}

// TestRedisFullBatch: finished keys of a batch are replayed while the memory of Redis is full.
func TestRedisFullBatch(t *testing.T) {
	t.Parallel()
	server := servers.StartRedis(t, "--maxmemory-policy", "noeviction")
	s := teststores.Redis(t, servers.RedisClients["rueidis"](t, "redis://"+server.Addr), nil)
	e := teststores.ShortEngine(t, s, retrysafe.Policy{})
	var keys []retrysafe.Key
	for i := range 3 {
		keys = append(keys, teststores.OrderKey(fmt.Sprint(i)))
		_, err := retrysafe.Do(t.Context(), e, keys[i], func(context.Context) (int64, error) { return 7, nil })
		assert.NoError(t, err, "first")
	}
	servers.RedisDo(server.Addr, "DEBUG", "POPULATE", 3000, "other", 2000)
	assert.Equal(t, servers.RedisDo(server.Addr, "CONFIG", "SET", "maxmemory", "4mb"), "OK", "less than the other keys take")
	_, rec, err := e.Begin(t.Context(), keys[0])
	assert.True(t, err == nil && rec != nil, "alone: %v", err)
	for _, b := range e.BeginBatch(t.Context(), keys) {
		assert.True(t, b.Err == nil && b.Record != nil, "in a batch: %v", b.Err)
	}
}
