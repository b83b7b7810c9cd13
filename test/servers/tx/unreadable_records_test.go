package tx_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/sqlstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
	"github.com/retrysafe/retrysafe/test/servers/internal/shops"
	"github.com/retrysafe/retrysafe/test/servers/internal/sqltest"
	"github.com/retrysafe/retrysafe/test/servers/internal/teststores"
	"github.com/retrysafe/retrysafe/test/servers/internal/waits"
)

// leftOut makes four calls end in doubt and damages the records of two. It checks that the others
// are listed, reconciled and finished.
func leftOut(t *testing.T, s storeapi.Store, spoil func(id string)) {
	t.Helper()
	policy := retrysafe.Policy{Lease: 5 * time.Second, Reconcile: func(context.Context, retrysafe.Record) (retrysafe.Resolution, error) {
		return retrysafe.Resolution{Outcome: retrysafe.NotDone}, nil
	}}
	e := retrysafe.New(s, &retrysafe.Options{Namespace: "app", Policy: policy, Secret: []byte("0123456789abcdef"), Sweep: -1, Logger: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() { _ = e.Shutdown(context.Background()) })
	broken := true
	op := retrysafe.NewOperation(e, "pay", func(context.Context, string) (string, error) {
		if broken {
			return "", errors.New("the line is dead")
		}
		return "paid", nil
	}, nil).Resumable()
	ids := []string{"a", "b", "c", "d"}
	for _, id := range ids {
		_, err := op.Do(t.Context(), "", id, id)
		assert.ErrorIs(t, err, retrysafe.ErrInDoubt, "a call that breaks")
	}
	spoil("b")
	spoil("d")
	lister, ok := s.(storeapi.Lister)
	assert.True(t, ok, "it lists")
	page := storeapi.Page{}
	for req := (storeapi.ListRequest{Namespace: e.Namespace(), Operation: "pay", Limit: 1}); ; req.After = page.Next {
		part, err := lister.List(t.Context(), req)
		assert.NoError(t, err, "list")
		page.Records, page.Unreadable, page.Next = append(page.Records, part.Records...), append(page.Unreadable, part.Unreadable...), part.Next
		if page.Next == "" {
			break
		}
	}
	got := map[string]bool{}
	for _, rec := range page.Records {
		got[rec.Key.ID] = true
	}
	assert.True(t, len(page.Records) == 2 && got["a"] && got["c"], "what is listed: %v", got)
	for _, u := range page.Unreadable {
		assert.True(t, (u.Key.ID == "b" || u.Key.ID == "d") && u.Err != nil, "what is left out: %q %v", u.Key.ID, u.Err)
	}
	assert.Equal(t, len(page.Unreadable), 2, "records that are left out")
	settled := 0
	var err error
	waits.Until(t.Context(), func() bool { // Reconcile is called when a doubt is two leases old
		var n int
		n, err = op.ReconcileAll(t.Context())
		settled += n
		return settled == 2
	})
	assert.Equal(t, settled, 2, "doubts that were asked about")
	assert.ErrorIs(t, err, retrysafe.ErrUnreadable, "the end of it")
	broken = false
	var log teststores.Log
	w := retrysafe.NewWorker(&retrysafe.WorkerOptions{MinWait: time.Millisecond, Logger: log.Logger()}, op)
	finished := 0
	var passed retrysafe.Passed
	waits.Until(t.Context(), func() bool {
		passed, err = w.Pass(t.Context())
		finished += passed.Finished
		return finished == 2
	})
	assert.NoError(t, err, "a pass of a worker")
	assert.Equal(t, finished, 2, "calls that it has finished")
	assert.True(t, passed.Unreadable > 0 && strings.Contains(log.String(), "cannot read it"), "it says what it left out: %+v", passed)
}

// TestUnreadableRecords: records that cannot be read do not block others, however they came to be.
func TestUnreadableRecords(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]string{"of a newer format": "\x02" + strings.Repeat("x", 100), "cut": "\x01\x02", "damaged": "\x01" + strings.Repeat("\xff", 90)} {
		for client, connect := range servers.RedisClients {
			t.Run("Redis/"+client+"/"+name, func(t *testing.T) {
				t.Parallel()
				server := servers.StartRedis(t)
				leftOut(t, teststores.Redis(t, connect(t, "redis://"+server.Addr), nil), func(id string) {
					key := storeapi.StoreKey{Namespace: "app", Layer: "fn", Key: retrysafe.Key{Operation: "pay", ID: id}}
					name, err := key.MarshalText()
					assert.NoError(t, err, "key")
					assert.Equal(t, servers.RedisDo(server.Addr, "EXISTS", "rs:"+string(name)), "1", "the record is there")
					assert.Equal(t, servers.RedisDo(server.Addr, "SET", "rs:"+string(name), value), "OK", "spoil")
				})
			})
		}
	}
	shops.EachKind(t, func(t *testing.T, a, _ *shops.Shop) {
		t.Helper()
		contains := map[sqlstore.Dialect]string{
			sqlstore.SQLite: "instr(parts, x'%x') > 0", sqlstore.PostgreSQL: `position('\x%x' in parts) > 0`, sqlstore.MySQL: "LOCATE(x'%x', parts) > 0",
		}[a.Store.Dialect()]
		bytes := "x'07'"
		if a.Store.Dialect() == sqlstore.PostgreSQL {
			bytes = `'\x07'`
		}
		leftOut(t, a.Store, func(id string) {
			sqltest.Exec(t, a.DB, "UPDATE retrysafe_records SET data = "+bytes+" WHERE "+fmt.Sprintf(contains, id))
		})
	})
}
