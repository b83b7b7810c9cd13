package cli

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/admin"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/stores/storetest"
)

// TestResolveUnconfirmed: if the replies of the store are lost, the operator reads that the change
// may have been made or not, and what to look at. Nothing says that the work is done, or that a
// call should be repeated.
func TestResolveUnconfirmed(t *testing.T) {
	t.Parallel()
	may := []string{"may have been made or not", "retrysafe keys show ", storetest.ErrFault.Error()}
	for op, want := range map[string][]string{
		"acquire": may, "release": may,
		"lookup": {"cannot be reached or fails, and nothing was changed", storetest.ErrFault.Error()},
	} {
		t.Run(op, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s, rec := inDoubt(t, op)
				d, err := admin.NewRecords(s, nil)
				assert.NoError(t, err, "records")
				hash := d.Hash(rec.Key)
				r := resolveFlags{outcome: "not-done", operator: operator{"ann", "x"}}
				res := retrysafe.Resolution{Fence: rec.Fence, Outcome: retrysafe.NotDone}
				if op == "release" { // the audit log does not release
					c := new(cobra.Command)
					c.SetContext(t.Context())
					err = r.resolveAudited(c, s, d, &rec, res)
				} else {
					err = operatorErrorOf(d.Resolve(t.Context(), rec.Key, res), hash)
				}
				for _, part := range want {
					assert.Contains(t, fmt.Sprint(err), part, "what it says")
				}
				for _, part := range []string{"the work is done", "same key", "repeat"} {
					assert.True(t, !strings.Contains(err.Error(), part), "it says %q: %v", part, err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				_ = d.Engine(rec.Key).Shutdown(ctx)
			})
		})
	}
}

// inDoubt returns a store that loses the replies to op, and a record in doubt in it.
func inDoubt(t *testing.T, op string) (storeapi.Store, retrysafe.Record) {
	t.Helper()
	key := storeapi.StoreKey{Namespace: "app", Layer: "gw", Key: storeapi.Key{Operation: "POST /orders", ID: "1"}}
	inner := memstore.New(nil)
	_, err := inner.Acquire(t.Context(), storeapi.AcquireRequest{Key: key, Owner: storeapi.Owner{1}, Lease: time.Second, Retention: time.Hour, OnDoubt: storeapi.Refuse})
	assert.NoError(t, err, "acquire")
	<-time.After(2 * time.Second)
	rec, err := inner.Lookup(t.Context(), key)
	assert.NoError(t, err, "look up")
	return storetest.NewFaulty(inner, func(called string, _ int) storetest.Fault {
		if called == op {
			return storetest.LoseReply
		}
		return 0
	}), rec
}

// TestWhileWaiting: the text is printed after some seconds, and not if the wait has ended.
func TestWhileWaiting(t *testing.T) {
	t.Parallel()
	for after, want := range map[time.Duration]string{time.Second: "", 10 * time.Second: "… the store\n"} {
		synctest.Test(t, func(t *testing.T) {
			var out bytes.Buffer
			stop := whileWaiting(&out, "the store")
			time.Sleep(after)
			stop()
			assert.Equal(t, out.String(), want, "after %v", after)
		})
	}
}
