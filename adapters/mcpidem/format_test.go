package mcpidem_test

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/adapters/mcpidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// TestFormats freezes the records of tool calls. rpcidem has the form around them.
func TestFormats(t *testing.T) {
	t.Parallel()
	s := memstore.New(nil)
	d := newDesk(t, s, &mcpidem.Options{}, nil)
	do(t, d.join("", nil), "k/1", `{"b": 1.0}`)
	var key storeapi.StoreKey
	assert.NoError(t, key.UnmarshalText([]byte("app/mcp/global/charge/k%2F1")), "key")
	rec, err := s.Lookup(t.Context(), key)
	assert.NoError(t, err, "look")
	form := sha256.Sum256([]byte("retrysafe request 1\nv\x00j\x10application/json" + `{"b":1}`))
	sum := sha256.Sum256([]byte("retrysafe rpc 1\ncharge\n\x01" + string(form[:])))
	assert.Equal(t, hex.EncodeToString(rec.Fingerprint), "01"+hex.EncodeToString(sum[:]), "fingerprint")
	assert.Equal(t, rec.Answer.Codec, "rpc", "codec")
	body := string(rec.Answer.Body)
	assert.Contains(t, body, "\x01\x00\x12mcp.CallToolResult{", "the head of the answer")
	assert.Contains(t, body, `"content":[{"type":"text","text":"run 1"}]`, "the answer")
	assert.True(t, strings.HasPrefix(body, "\x01"), "the version")
}

// TestWords: clients and servers know these members of _meta and this header.
func TestWords(t *testing.T) {
	t.Parallel()
	assert.Words(t, "testdata/words.golden", []string{
		mcpidem.DefaultMeta, mcpidem.ReplayedMeta, mcpidem.StoredMeta, mcpidem.ReasonMeta, mcpidem.RetryAfterMeta,
	})
}
