package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/admin"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/sqlstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// recordsInDoubt makes a store with a record in doubt for each of the ids, and returns its name
// for commands, the fences, and its database.
func recordsInDoubt(t *testing.T, ids ...string) (name string, fences []string, db *sql.DB, store *sqlstore.Store) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "r.db")
	db, err := sql.Open("sqlite", file+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=busy_timeout(10000)")
	assert.NoError(t, err, "open")
	t.Cleanup(func() { _ = db.Close() })
	store, err = sqlstore.New(db, sqlstore.SQLite, nil)
	assert.NoError(t, err, "store")
	assert.NoError(t, store.Migrate(t.Context()), "migrate")
	e := retrysafe.New(store, &retrysafe.Options{Namespace: "shop", Sweep: -1, Logger: slog.New(slog.DiscardHandler), Policy: retrysafe.Policy{OnDoubt: retrysafe.Refuse}})
	for _, id := range ids {
		key := retrysafe.Key{Operation: "POST /orders", ID: id}
		_, err := retrysafe.Do(t.Context(), e.Layer("gw"), key, func(context.Context) (int, error) { return 0, errors.New("timeout") })
		assert.True(t, err != nil, "the work fails")
		rec, err := e.Layer("gw").Lookup(t.Context(), key)
		assert.NoError(t, err, "look up")
		fences = append(fences, fmt.Sprint(rec.Fence))
	}
	return "sqlite:" + file, fences, db, store
}

// TestKeysAudit: a resolution and a release by the command line are in the audit log of the
// record's namespace, with the operator's name. If the log cannot be written, nothing is changed.
func TestKeysAudit(t *testing.T) {
	t.Parallel()
	name, fences, db, store := recordsInDoubt(t, "order-1", "order-2", "order-3")
	keys := func(args ...string) (string, int) {
		return runToEnd(t, newCommand(t, append([]string{"keys", "--store", name}, args...)...))
	}
	out, code := keys("resolve", "shop/gw//POST%20%2Forders/order-1", "--fence", fences[0], "--outcome", "failed", "--failure", "declined", "--by", "علی\u200cرضا", "--reason", "the bank says 退款")
	assert.Equal(t, code, 0, "resolve: %s", out)
	out, code = keys("release", "shop/gw//POST%20%2Forders/order-2", "--fence", fences[1], "--by", "ann", "--reason", "no order in the shop")
	assert.Equal(t, code, 0, "release: %s", out)
	out, code = keys("release", "shop/gw//POST%20%2Forders/order-3", "--fence", fences[2], "--by", "a\nb", "--reason", "x")
	assert.True(t, code == 2 && strings.Contains(out, "--by: "), "a name with a line break: %s", out)
	for _, reason := range []string{"", " ", "a\nb", strings.Repeat("a", 1001)} {
		out, code = keys("release", "shop/gw//POST%20%2Forders/order-3", "--fence", fences[2], "--by", "ann", "--reason", reason)
		assert.True(t, code == 2 && strings.Contains(out, "--reason: "), "the reason %q: %s", reason, out)
	}

	entries := auditEntries(t, store, "shop", 10)
	var got []string
	for _, e := range entries {
		assert.True(t, admin.IsHash(e.Object), "object %q", e.Object)
		assert.Equal(t, e.Origin, "command", "how the name is known")
		got = append(got, fmt.Sprint(e.Who, " ", e.Action, " ", e.Detail, " ", e.Result, ": ", e.Reason))
	}
	assert.Equal(t, got, []string{
		"ann resolve not-done done: no order in the shop", "ann resolve not-done begun: no order in the shop",
		"علی\u200cرضا resolve failed done: the bank says 退款", "علی\u200cرضا resolve failed begun: the bank says 退款",
	}, "entries")
	out, code = keys("show", "1")
	assert.Equal(t, code, 1, "entries of the log are not found by their numbers: %s", out)
	out, _ = keys("list")
	assert.True(t, !strings.Contains(out, "audit"), "entries of the log are not listed with the records: %s", out)
	out, _ = keys("list", "--layer", "audit")
	assert.Contains(t, out, "audit", "a list of the layer")

	_, err := db.ExecContext(t.Context(), `CREATE TRIGGER no_log BEFORE INSERT ON retrysafe_records BEGIN SELECT RAISE(ABORT, 'no room'); END`)
	assert.NoError(t, err, "trigger")
	out, code = keys("release", "shop/gw//POST%20%2Forders/order-3", "--fence", fences[2], "--by", "ann", "--reason", "x")
	assert.Equal(t, code, 1, "release without a log: %s", out)
	assert.Contains(t, out, "the audit log cannot be written", "release without a log")
	out, _ = keys("show", "shop/gw//POST%20%2Forders/order-3")
	assert.Contains(t, out, "in-doubt", "the record is not changed")
}

// TestKeysRevealAudit: keys show --reveal is in the audit log of the record's namespace, with the
// operator's name and the reason. Without a reason, or without a log, nothing is shown.
func TestKeysRevealAudit(t *testing.T) {
	t.Parallel()
	name, _, db, store := recordsInDoubt(t, "order-secret-1")
	show := func(args ...string) (string, int) {
		return runToEnd(t, newCommand(t, append([]string{"keys", "show", "--store", name, "shop/gw//POST%20%2Forders/order-secret-1"}, args...)...))
	}
	out, code := show()
	assert.True(t, code == 0 && !strings.Contains(out, "secret"), "show needs no reason: %s", out)
	assertAudited(t, store, "shop")
	for _, reason := range []string{"", " ", "a\nb"} {
		out, code = show("--reveal", "--reason", reason)
		assert.True(t, code == 2 && strings.Contains(out, "--reason: ") && !strings.Contains(out, "order-secret"), "the reason %q: %s", reason, out)
	}
	out, code = show("--reveal", "--reason", "x", "--by", "a\nb")
	assert.True(t, code == 2 && strings.Contains(out, "--by: "), "a name with a line break: %s", out)
	out, code = show("--reveal", "--reason", "the customer asks", "--by", "ann")
	assert.True(t, code == 0 && strings.Contains(out, "order-secret-1"), "show --reveal: %s", out)
	hash := strings.Fields(out)[1]
	assertAudited(t, store, "shop", "ann reveal : done (the customer asks)", "ann reveal : begun (the customer asks)")
	entries := auditEntries(t, store, "shop", 1)
	assert.Equal(t, entries[0].Object, hash, "the object")
	_, err := db.ExecContext(t.Context(), `CREATE TRIGGER no_log BEFORE INSERT ON retrysafe_records BEGIN SELECT RAISE(ABORT, 'no room'); END`)
	assert.NoError(t, err, "trigger")
	out, code = show("--reveal", "--reason", "x")
	assert.True(t, code == 1 && strings.Contains(out, "the audit log cannot be written") && !strings.Contains(out, "order-secret"), "show --reveal without a log: %s", out)
}

// TestKeysNames: a record is found by the key that the client sent, the states and causes have the
// words of the API, and errors have one prefix.
func TestKeysNames(t *testing.T) {
	t.Parallel()
	name, _, _, store := recordsInDoubt(t, "order-1", "order-2")
	keys := func(args ...string) (string, int) {
		return runToEnd(t, newCommand(t, append([]string{"keys", "--store", name}, args...)...))
	}
	out, code := keys("list", "--state", "in-doubt")
	assert.True(t, code == 0 && strings.Count(out, "in-doubt") == 2, "those in doubt: %s", out)
	out, code = keys("list", "--state", "nonsense")
	assert.True(t, code == 2 && strings.Contains(out, "in-doubt"), "a state that there is not: %s", out)

	out, code = keys("show", "order-2", "--reveal", "--reason", "x")
	assert.True(t, code == 0 && strings.Contains(out, "shop/gw//POST%20%2Forders/order-2"), "a record by the client's key: %s", out)
	out, code = keys("show", "order-3")
	assert.True(t, code == 1 && strings.Contains(out, "keys list"), "a key that no record has: %s", out)
	e := retrysafe.New(store, &retrysafe.Options{Namespace: "shop", Sweep: -1, Logger: slog.New(slog.DiscardHandler)})
	_, err := retrysafe.Do(t.Context(), e, retrysafe.Key{Operation: "ship", ID: "order-1"}, func(context.Context) (int, error) { return 1, nil })
	assert.NoError(t, err, "another operation with the key")
	out, code = keys("show", "order-1")
	assert.True(t, code == 1 && strings.Contains(out, "several records have this key") && strings.Count(out, "shop ") == 2, "a key of two records: %s", out)
	out, code = keys("show", "order-1", "--layer", "fn")
	assert.Equal(t, code, 0, "a key of two records, with the layer: %s", out)
	out, code = keys("release", "order-2", "--fence", "1", "--reason", "x")
	assert.True(t, code == 1 && strings.HasPrefix(out, "retrysafe: ") && strings.Count(out, "retrysafe: ") == 1, "an error of the engine: %s", out)

	died := storeapi.StoreKey{Namespace: "shop", Layer: "gw", Key: storeapi.Key{Operation: "POST /orders", ID: "died"}}
	_, err = store.Acquire(t.Context(), storeapi.AcquireRequest{Key: died, Owner: storeapi.Owner{1}, Lease: time.Millisecond, OnDoubt: storeapi.Refuse})
	assert.NoError(t, err, "acquire")
	eventually(t, func() bool { out, _ = keys("show", "died"); return strings.Contains(out, "in-doubt") }, "in doubt")
	assert.Contains(t, out, "crash", "cause of one whose process died")
	out, _ = keys("list", "--state", "in-doubt", "--json")
	assert.Contains(t, out, `"cause":"crash"`, "cause in a list")
}
