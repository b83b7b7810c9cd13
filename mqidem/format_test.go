package mqidem_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/mqidem"
)

// TestReasonFormat freezes the header of a dead letter: letters stay in their queue over releases.
func TestReasonFormat(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 1, 12, 0, 0, 5000, time.UTC)
	all := []mqidem.Reason{
		{Why: mqidem.DeadTries, Error: "no stock", Tries: 5, Consumer: "stock", Key: "app/mq//stock/order-1", Until: at.Add(24 * time.Hour), Source: "orders.stock", At: at, Redrives: 1},
		{Why: mqidem.DeadPoison, Error: "<é> & 𝄞", Source: "q", At: at},
		{Why: mqidem.DeadRefused, Source: "q", At: at, Cut: mqidem.CutReason},
		{Why: mqidem.DeadNoID, Source: "q", At: at, Cut: mqidem.CutHeaders, Size: 1000, SHA256: strings.Repeat("0a", 32)},
		{Why: mqidem.DeadTooLarge, Source: "q", At: at, Cut: mqidem.CutBody, Size: 1 << 20, SHA256: strings.Repeat("0b", 32)},
		{Why: mqidem.DeadInDoubt, Source: "q", At: at},
		{Why: mqidem.DeadMismatch, Source: "q", At: at},
	}
	var got strings.Builder
	for i := range all {
		packed, err := all[i].Pack()
		assert.NoError(t, err, "pack")
		got.Write(append(packed, '\n'))
	}
	const golden = "testdata/dead_v1.golden"
	assert.Golden(t, golden, got.String())
	text, err := os.ReadFile(golden)
	assert.NoError(t, err, "read")
	for i, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		back, err := mqidem.ParseReason([]byte(line))
		assert.NoError(t, err, "line %d", i+1)
		assert.Equal(t, back, all[i], "line %d", i+1)
	}
}

// TestHeaders: the headers that producers, other consumers and operators know.
func TestHeaders(t *testing.T) {
	t.Parallel()
	assert.Words(t, "testdata/words.golden", []string{
		mqidem.HeaderID, mqidem.HeaderKey, mqidem.HeaderContentType, mqidem.HeaderDead, mqidem.HeaderRedrives, mqidem.HeaderTries,
	})
}
