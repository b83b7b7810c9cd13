package main

import (
	"database/sql"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/sqlstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// TestKeysQuota: an operator sees what a tenant uses, and looking uses nothing.
func TestKeysQuota(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "r.db")
	db, err := sql.Open("sqlite", "file:"+path)
	assert.NoError(t, err, "open")
	t.Cleanup(func() { _ = db.Close() })
	s, err := sqlstore.New(db, sqlstore.SQLite, nil)
	assert.NoError(t, err, "store")
	assert.NoError(t, s.Migrate(t.Context()), "tables")
	req := storeapi.ChargeRequest{
		Namespace: "app", Tenant: "alice", Keys: 2, Bytes: 500, For: 24 * time.Hour, Limits: storeapi.Limits{PerSecond: 0.01, Burst: 5},
	}
	got, err := s.Charge(t.Context(), req)
	assert.True(t, err == nil && got.OK, "charge: %v %v", got, err)
	quota := func(args ...string) string {
		t.Helper()
		out, err := newCommand(t, append([]string{"keys", "--store", "sqlite:" + path, "quota"}, args...)...).CombinedOutput()
		assert.NoError(t, err, "quota: %s", out)
		return string(out)
	}
	for range 2 {
		text := quota("--tenant", "alice")
		for _, want := range []string{"live keys", "2\n", "500", "0.01 keys a second", "2 of the burst used"} {
			assert.Contains(t, text, want, "quota")
		}
	}
	assert.True(t, strings.HasPrefix(quota("--tenant", "alice", "--json"), `{"keys":2,"bytes":500,"frees_s":`), "quota as JSON: %s", quota("--tenant", "alice", "--json"))
	assert.Equal(t, quota("--tenant", "bob", "--json"), `{"keys":0,"bytes":0,"rates":[]}`+"\n", "quota of another")
	assert.Equal(t, quota("--tenant", "alice", "--namespace", "other", "--json"), `{"keys":0,"bytes":0,"rates":[]}`+"\n", "quota in another namespace")
}
