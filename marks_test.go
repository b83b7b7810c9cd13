package retrysafe_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/memstore"
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

// TestOutcomeOfJoined: the outcome of several errors in one. A branch without a mark may have had
// an effect.
func TestOutcomeOfJoined(t *testing.T) {
	t.Parallel()
	bare, domain := errors.New("the card was declined"), errors.New("shop: payment failed")
	nothing, permanent, doubt := retrysafe.NothingDone(bare), retrysafe.Permanent("declined", bare), retrysafe.InDoubt(bare)
	done := func(error) retrysafe.Outcome { return retrysafe.Done }
	const refuse, again = retrysafe.Refuse, retrysafe.Reexecute
	for name, tt := range map[string]struct {
		err           error
		refuse, again retrysafe.Outcome
	}{
		"every branch did nothing":                  {errors.Join(nothing, nothing), retrysafe.NotDone, retrysafe.NotDone},
		"every branch is final":                     {errors.Join(permanent, permanent), retrysafe.Failed, retrysafe.Failed},
		"nothing done, and final":                   {errors.Join(nothing, permanent), retrysafe.Failed, retrysafe.Failed},
		"in doubt wins over the others":             {errors.Join(nothing, permanent, doubt), retrysafe.Doubtful, retrysafe.Doubtful},
		"in doubt wins over no mark":                {errors.Join(bare, doubt), retrysafe.Doubtful, retrysafe.Doubtful},
		"a timeout, and nothing done":               {fmt.Errorf("%w; %w", context.DeadlineExceeded, nothing), retrysafe.Doubtful, retrysafe.NotDone},
		"a timeout, and final":                      {errors.Join(context.DeadlineExceeded, permanent), retrysafe.Doubtful, retrysafe.Failed},
		"the error of a domain, and final":          {fmt.Errorf("%w: %w", domain, permanent), retrysafe.Doubtful, retrysafe.Failed},
		"a part of a part":                          {errors.Join(nothing, fmt.Errorf("%w: %w", domain, nothing)), retrysafe.Doubtful, retrysafe.NotDone},
		"a part of a part is final":                 {errors.Join(nothing, fmt.Errorf("%w: %w", domain, permanent)), retrysafe.Doubtful, retrysafe.Failed},
		"a mark around all of it":                   {retrysafe.NothingDone(errors.Join(bare, permanent)), retrysafe.NotDone, retrysafe.NotDone},
		"a mark around all of it, further up":       {fmt.Errorf("pay: %w", retrysafe.Permanent("declined", errors.Join(bare, nothing))), retrysafe.Failed, retrysafe.Failed},
		"no branch is marked, so Classify is asked": {errors.Join(bare, domain), retrysafe.Done, retrysafe.Done},
	} {
		assert.Equal(t, retrysafe.Policy{OnDoubt: refuse, Classify: done}.OutcomeOf(tt.err), tt.refuse, "%s, under Refuse", name)
		assert.Equal(t, retrysafe.Policy{OnDoubt: again, Classify: done}.OutcomeOf(tt.err), tt.again, "%s, under Reexecute", name)
	}
	strange := func(error) retrysafe.Outcome { return 99 }
	assert.Equal(t, retrysafe.Policy{OnDoubt: again, Classify: strange}.OutcomeOf(bare), retrysafe.Doubtful, "a verdict that does not exist")
	assert.Equal(t, retrysafe.Policy{}.OutcomeOf(nil), retrysafe.Done, "no error")
}

// TestMarkedInPart: work that timed out and whose clean-up did nothing does not run again, and its
// record says how to mark an error.
func TestMarkedInPart(t *testing.T) {
	t.Parallel()
	e, c := engineOn(t, newStore(), retrysafe.Policy{}), new(counter)
	_, err := retrysafe.Do(t.Context(), e, charge, func(context.Context) (string, error) {
		c.n.Add(1)
		return "", fmt.Errorf("%w; %w", context.DeadlineExceeded, retrysafe.NothingDone(errors.New("the refund was refused")))
	})
	assert.ErrorIs(t, err, retrysafe.ErrInDoubt, "the first call")
	assert.ErrorIs(t, err, context.DeadlineExceeded, "the first call's error")
	_, err = retrysafe.Do(t.Context(), e, charge, c.work)
	assert.ErrorIs(t, err, retrysafe.ErrInDoubt, "the duplicate")
	c.started(t, 1)
	rec := lookup(t, e, charge)
	assert.Equal(t, rec.Cause, "marked-in-part", "cause")
	assert.Contains(t, rec.LastError, "mark the outermost error", "the advice")
}

// TestKeyFor: a derived key is the same in every attempt. It is another one for another name, key,
// tenant or operation, and for the same key after its record has expired.
func TestKeyFor(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	e := retrysafe.New(memstore.New(&memstore.Options{Now: func() time.Time { return now }}), &retrysafe.Options{Sweep: -1})
	seen := map[string]string{}
	derive := func(k retrysafe.Key, name string) string {
		a, _, err := e.Begin(t.Context(), k)
		assert.NoError(t, err, "begin")
		defer func() { _ = a.Release(t.Context(), nil) }()
		return a.KeyFor(name)
	}
	for _, part := range [][3]string{{"t", "o", "i"}, {"t", "o", "j"}, {"t", "p", "i"}, {"u", "o", "i"}, {"", "o", "i"}, {"t", "o\n", "i"}} {
		k := retrysafe.Key{Tenant: part[0], Operation: part[1], ID: part[2]}
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
