package retrysafe_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/memstore"
)

func TestMarked(t *testing.T) {
	t.Parallel()
	bare := errors.New("the card was declined")
	for _, tt := range []struct {
		err      error
		want     retrysafe.Outcome
		unmarked error
	}{
		{nil, 0, nil},
		{bare, 0, bare},
		{retrysafe.NothingDone(bare), retrysafe.NotDone, bare},
		{retrysafe.InDoubt(bare), retrysafe.Doubtful, bare},
		{retrysafe.Permanent("declined", bare), retrysafe.Failed, bare},
		{retrysafe.NothingDone(retrysafe.InDoubt(bare)), retrysafe.NotDone, bare},
		{fmt.Errorf("pay: %w", retrysafe.NothingDone(bare)), retrysafe.NotDone, bare},
	} {
		got, ok := retrysafe.Marked(tt.err)
		assert.Equal(t, got, tt.want, "%v", tt.err)
		assert.Equal(t, ok, tt.want != 0, "%v is marked", tt.err)
		assert.Equal(t, retrysafe.Unmarked(tt.err), tt.unmarked, "%v without marks", tt.err)
	}
	joined := errors.Join(retrysafe.NothingDone(bare), errors.New("another"))
	assert.Equal(t, retrysafe.Unmarked(joined), joined, "a joined error stays")
}

// TestKeyFor: a derived key is the same in every attempt, and another one for another name, key, tenant or operation, and for the same key
// after its record has passed.
func TestKeyFor(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	e := retrysafe.New(memstore.New(&memstore.Options{Clock: func() time.Time { return now }}), &retrysafe.Options{Sweep: -1})
	seen := map[string]string{}
	derive := func(k retrysafe.Key, name string) string {
		a, _, err := e.Begin(t.Context(), k)
		assert.NoError(t, err, "begin")
		defer func() { _ = a.Release(t.Context(), nil) }()
		return a.KeyFor(name)
	}
	for _, k := range []retrysafe.Key{{"t", "o", "i"}, {"t", "o", "j"}, {"t", "p", "i"}, {"u", "o", "i"}, {"", "o", "i"}, {"t", "o\n", "i"}} {
		for _, name := range []string{"", "charge", "mail", "\ncharge"} {
			what := fmt.Sprintf("%q of %q", name, []string{k.Tenant, k.Operation, k.ID})
			key := derive(k, name)
			assert.Equal(t, len(key), 64, "length")
			assert.Equal(t, derive(k, name), key, "%s in the next attempt", what)
			assert.Equal(t, seen[key], "", "%s has the key of", what)
			seen[key] = what
		}
	}
	key := derive(retrysafe.Key{Tenant: "t", Operation: "o", ID: "i"}, "charge")
	now = now.Add(48 * time.Hour)
	assert.True(t, derive(retrysafe.Key{Tenant: "t", Operation: "o", ID: "i"}, "charge") != key, "another piece of work has another key")
}
