package mcpidem_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/adapters/mcpidem"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/httpidem/fingerprint"
	"github.com/retrysafe/retrysafe/internal/assert"
)

// TestDerived: a call without a key that is repeated within the window is a duplicate, by the
// meaning of its arguments.
func TestDerived(t *testing.T) {
	t.Parallel()
	for window, want := range map[time.Duration]time.Duration{0: httpidem.DefaultWindow, time.Minute: time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			d := newDesk(t, nil, &mcpidem.Options{
				Key: mcpidem.Derived, Window: window, Rule: fingerprint.Rule{Ignore: []string{"sentAt"}},
				Policy: retrysafe.Policy{Retention: time.Hour},
			}, nil)
			s := d.join("", nil)
			assert.Equal(t, says(do(t, s, "", `{"a":10,"b":"x","sentAt":1}`)), "run 1", "the first")
			time.Sleep(want - time.Millisecond)
			res := do(t, s, "", ` {"b":"\u0078", "a":1e1, "sentAt":2}`)
			assert.True(t, says(res) == "run 1" && mcpidem.Replayed(res), "within the window: %s", says(res))
			assert.Equal(t, says(do(t, s, "", `{"a":11,"b":"x"}`)), "run 2", "other arguments")
			assert.Equal(t, says(do(t, s, "k", `{"a":10,"b":"x"}`)), "run 3", "a key of the client")
			time.Sleep(time.Millisecond)
			assert.Equal(t, says(do(t, s, "", `{"a":10,"b":"x"}`)), "run 4", "after the window")
			time.Sleep(want + time.Minute)
			assert.True(t, mcpidem.Replayed(do(t, s, "k", `{"a":10,"b":"x"}`)), "a key of the client counts longer")
		})
	}
}

// TestDerivedRefusals: no key is derived for a caller without a name, nor from arguments that can
// be read in two ways. With a key, such arguments are compared as they are written.
func TestDerivedRefusals(t *testing.T) {
	t.Parallel()
	unnamed := newDesk(t, nil, &mcpidem.Options{Key: mcpidem.Derived, Tenant: anonymous}, nil)
	refused(t, do(t, unnamed.join("", nil), "", `{}`), "TENANT_MISSING", false)
	d := newDesk(t, nil, &mcpidem.Options{Key: mcpidem.Derived}, nil)
	s := d.join("", nil)
	const twice = `{"a":1,"a":2}`
	refused(t, do(t, s, "", twice), "REQUEST_UNREADABLE", false)
	assert.Equal(t, d.runs.Load(), int64(0), "runs")
	do(t, s, "k", twice)
	assert.True(t, mcpidem.Replayed(do(t, s, "k", twice)), "the same text")
	refused(t, do(t, s, "k", `{"a":2}`), "PAYLOAD_MISMATCH", false)
}

// TestNoArguments: a call without arguments is one with an empty object.
func TestNoArguments(t *testing.T) {
	t.Parallel()
	d := newDesk(t, nil, nil, nil)
	s := d.join("", nil)
	p := params("k", `{}`)
	do(t, s, "k", `{}`)
	p.Arguments = nil
	res, err := call(t, s, p)
	assert.True(t, err == nil && mcpidem.Replayed(res), "no arguments: %v", err)
	refused(t, do(t, s, "k", `{"a":1}`), "PAYLOAD_MISMATCH", false)
}
