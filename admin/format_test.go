package admin_test

import (
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/admin"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// TestAuditFormat freezes the entries of the audit log, which are kept for more than a year.
func TestAuditFormat(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 1, 12, 0, 0, 5000, time.UTC)
	s := memstore.New(&memstore.Options{Now: func() time.Time { return at }})
	log := admin.NewAudit(s, "shop", 0)
	e := admin.Entry{Who: "ann", Action: "resolve", Object: "h-1", Reason: "asked", Detail: "completed", Result: "done", Of: 1}
	n, err := log.Write(t.Context(), e)
	assert.NoError(t, err, "write")
	var key storeapi.StoreKey
	assert.NoError(t, key.UnmarshalText([]byte("shop/audit//2026-11-01/1")), "key")
	rec, err := s.Lookup(t.Context(), key)
	assert.NoError(t, err, "look")
	assert.Equal(t, rec.Answer.Codec, "json", "codec")
	assert.Equal(t, string(rec.Answer.Body), `{"number":1,"at":"2026-11-01T12:00:00.000005Z","who":"ann","action":"resolve","object":"h-1",`+
		`"reason":"asked","detail":"completed","result":"done","of":1}`, "entry")
	got, _, err := log.Read(t.Context(), at, 0, 10)
	assert.NoError(t, err, "read")
	e.Number, e.At = n, at
	assert.Equal(t, got, []admin.Entry{e}, "what is read")
}
