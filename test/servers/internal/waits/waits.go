// Package waits waits for events, much longer than a busy machine needs.
package waits

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// Patience is how long tests wait for something that happens soon. It is much longer than a busy
// machine needs, since a wait ends as soon as it has happened.
const Patience = 3 * time.Minute

// Long is a time limit that no test reaches.
const Long = time.Hour

// Soon waits for what a goroutine of the test does next, and fails instead of hanging.
func Soon[V any](t *testing.T, c <-chan V, what string) (v V) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(Patience):
		t.Fatalf("%s: nothing has happened for %v", what, Patience)
	}
	return v
}

// Until calls f every few milliseconds until it returns true or ctx ends.
func Until(ctx context.Context, f func() bool) {
	for !f() && ctx.Err() == nil {
		<-time.After(5 * time.Millisecond)
	}
}

// Eventually waits until ok returns true, and fails after Patience.
func Eventually(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	for end := time.Now().Add(Patience); !ok(); <-time.After(20 * time.Millisecond) {
		assert.True(tb, time.Now().Before(end), "within %v: %s", Patience, what)
	}
}

// LongSoak reports whether this is a long run.
func LongSoak() bool { return os.Getenv("RETRYSAFE_SOAK") == "long" }
