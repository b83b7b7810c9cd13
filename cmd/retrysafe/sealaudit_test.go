package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/admin"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/sealstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// TestSealAudit: seal rewrap and seal forget are in the audit log, which stays readable when all
// tenants were forgotten, also the empty one. A tenant's name is not in it. If the log cannot be
// written, no data key is destroyed.
func TestSealAudit(t *testing.T) {
	t.Parallel()
	name, _, db, inner := recordsInDoubt(t)
	first, code := runToEnd(t, newCommand(t, "seal", "keygen", "first"))
	assert.Equal(t, code, 0, "keygen: %s", first)
	keys := filepath.Join(t.TempDir(), "seal.json")
	assert.NoError(t, os.WriteFile(keys, []byte(first), 0o600), "keys")
	ring, err := sealstore.ReadRing(keys)
	assert.NoError(t, err, "ring")
	tenants := []string{"ada-secret", ""}
	key := func(tenant string) storeapi.StoreKey {
		return storeapi.StoreKey{Namespace: "shop", Layer: "fn", Key: storeapi.Key{Tenant: tenant, Operation: "pay", ID: "1"}}
	}
	for _, tenant := range tenants {
		s := sealstore.New(inner, ring, nil)
		got, err := s.Acquire(t.Context(), storeapi.AcquireRequest{Key: key(tenant), Owner: storeapi.Owner{1}, Lease: time.Minute, Retention: time.Hour, OnDoubt: storeapi.Refuse})
		assert.NoError(t, err, "acquire")
		_, err = s.Complete(t.Context(), storeapi.CompleteRequest{
			Key: key(tenant), Owner: storeapi.Owner{1}, Fence: got.Record.Fence, State: storeapi.StateCompleted,
			Answer: storeapi.Answer{Codec: "json", Body: []byte("1"), Kept: true},
		})
		assert.NoError(t, err, "complete")
	}
	sealed := func(tenant string) bool {
		rec, err := sealstore.New(inner, ring, nil).Lookup(t.Context(), key(tenant))
		assert.NoError(t, err, "look up")
		return rec.Answer.Sealed()
	}
	seal := func(args ...string) (string, int) {
		return runToEnd(t, newCommand(t, append([]string{"seal", args[0], "--store", name, "--seal-keys", keys, "--namespace", "shop", "--by", "ann"}, args[1:]...)...))
	}
	out, code := seal("rewrap")
	assert.Equal(t, code, 0, "rewrap: %s", out)
	for _, tenant := range tenants {
		_, err = db.ExecContext(t.Context(), `CREATE TRIGGER no_log BEFORE INSERT ON retrysafe_records BEGIN SELECT RAISE(ABORT, 'no room'); END`)
		assert.NoError(t, err, "trigger")
		out, code = seal("forget", "--tenant", tenant, "--reason", "x")
		assert.True(t, code == 1 && strings.Contains(out, "the audit log cannot be written"), "forget without a log: %s", out)
		assert.True(t, !sealed(tenant), "the answer of %q", tenant)
		_, err = db.ExecContext(t.Context(), `DROP TRIGGER no_log`)
		assert.NoError(t, err, "trigger")
		out, code = seal("forget", "--tenant", tenant, "--reason", "the customer asks")
		assert.True(t, code == 0 && !strings.Contains(out, "secret"), "forget: %s", out)
		assert.True(t, sealed(tenant), "the answer of %q is not opened any more", tenant)
	}
	log := sealstore.New(inner, ring, &sealstore.Options{OnlySealed: true})
	assertAudited(t, log, "shop",
		"ann forget : done (the customer asks)", "ann forget : begun (the customer asks)",
		"ann forget : done (the customer asks)", "ann forget : begun (the customer asks)",
		"ann rewrap 0 data keys: done", "ann rewrap : begun")
	entries := auditEntries(t, log, "shop", 10)
	for i, e := range entries[:4] {
		hash, ok := strings.CutPrefix(e.Object, "tenant ")
		assert.True(t, ok && admin.IsHash(hash), "object %q", e.Object)
		assert.Equal(t, strings.Contains(out, e.Object), i < 2, "forget says what the log calls the tenant: %s", out)
	}
}
