package retrysafe_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
)

// TestFailedBefore: a final refusal is not a success in any form and under any policy.
func TestFailedBefore(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		policy retrysafe.Policy
		text   string
		code   string // of the failure that a duplicate gets; empty: none
		before bool   // the error is ErrFailedBefore
	}{
		"replayed":            {retrysafe.Policy{}, "declined", "no-credit", false},
		"rejected":            {retrysafe.Policy{Duplicate: retrysafe.Reject}, "declined", "no-credit", true},
		"succeeds":            {retrysafe.Policy{Duplicate: retrysafe.Succeed}, "declined", "no-credit", false},
		"too large":           {retrysafe.Policy{MaxAnswer: 10}, "declined", "", true},
		"too large, rejected": {retrysafe.Policy{MaxAnswer: 10, Duplicate: retrysafe.Reject}, strings.Repeat("x", 100), "", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := engineOn(t, newStore(), c.policy)
			work := func(context.Context) (string, error) { return "", retrysafe.Permanent("no-credit", errors.New(c.text)) }
			_, err := retrysafe.Do(ctx, e, charge, work)
			var f *retrysafe.Failure
			assert.True(t, errors.As(err, &f) && f.Code == "no-credit", "the first: %v", err)
			for range 2 {
				_, err = retrysafe.Do(ctx, e, charge, work)
				f = nil
				assert.Equal(t, errors.As(err, &f), c.code != "", "a repeat has the refusal: %v", err)
				assert.True(t, f == nil || f.Code == c.code, "its code: %+v", f)
				assert.Equal(t, errors.Is(err, retrysafe.ErrFailedBefore), c.before, "a repeat: %v", err)
				assert.True(t, err != nil && !errors.Is(err, retrysafe.ErrDuplicate) && !errors.Is(err, retrysafe.ErrAnswerNotKept), "it is no success: %v", err)
				_, again := retrysafe.Retryable(err)
				assert.True(t, !again, "it is not to be retried: %v", err)
			}
		})
	}
}

// TestRefusalsAreFinal: a final refusal is not retryable, whatever it wraps.
func TestRefusalsAreFinal(t *testing.T) {
	t.Parallel()
	e := engineOn(t, newStore(), retrysafe.Policy{})
	for i := range 2 {
		_, err := retrysafe.Do(ctx, e, charge, func(context.Context) (string, error) {
			return "", retrysafe.Permanent("gone", fmt.Errorf("the account: %w", errors.Join(retrysafe.ErrUnavailable, sql.ErrNoRows)))
		})
		after, again := retrysafe.Retryable(err)
		assert.True(t, err != nil && !again && after == 0, "call %d: %v", i, err)
	}
}

// TestAnswersThatNobodyCouldRead: answers that cannot be read are refused, and the attempt can
// still be finished.
func TestAnswersThatNobodyCouldRead(t *testing.T) {
	t.Parallel()
	e := engineOn(t, newStore(), retrysafe.Policy{})
	a, _, err := e.Begin(ctx, charge)
	assert.NoError(t, err, "begin")
	bad := retrysafe.Answer{Codec: "raw", Body: []byte("paid")}
	assert.Contains(t, fmt.Sprint(a.Complete(ctx, bad)), "set Kept", "a body that would be lost")
	assert.Contains(t, fmt.Sprint(e.CompleteBatch(ctx, []*retrysafe.Attempt{a}, []retrysafe.Answer{bad})[0]), "set Kept", "in a batch")
	assert.NoError(t, a.LeaveInDoubt(ctx, errWork), "the attempt goes on")
	rec := lookup(t, e, charge)
	err = e.Resolve(ctx, charge, retrysafe.Resolution{Fence: rec.Fence, Outcome: retrysafe.Done, Answer: retrysafe.Answer{Body: []byte("paid"), Kept: true}})
	assert.Contains(t, fmt.Sprint(err), "no Codec", "an answer that nobody can read")
	assert.True(t, func() bool { r := lookup(t, e, charge); return r.InDoubt() }(), "the key stays in doubt")
}
