package token_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem/token"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/stores/storetest"
)

func TestOptionsAreChecked(t *testing.T) {
	t.Parallel()
	for want, o := range map[string]token.Options{
		"use 1s to 720h":      {Life: time.Millisecond},
		"or zero for 5m":      {Life: 721 * time.Hour},
		"positive number":     {Total: -1},
		"at least 32 random":  {StatelessSecret: []byte("short")},
		"on all processes":    {StatelessSecret: make([]byte, 31)},
		"use 1s to 720h, or ": {Life: -1},
	} {
		err := o.Validate()
		assert.True(t, err != nil && strings.Contains(err.Error(), want), "%q: %v", want, err)
		func() {
			defer func() { assert.True(t, recover() != nil, "NewIssuer panics") }()
			token.NewIssuer(engineOn(t, newStore(), retrysafe.Policy{}), &o)
		}()
	}
	func() {
		defer func() { assert.True(t, recover() != nil, "NewIssuer without an engine panics") }()
		token.NewIssuer(nil, nil)
	}()
}

// TestTokens: tokens are unique, can be part of a URL, and work only for their tenant.
func TestTokens(t *testing.T) {
	t.Parallel()
	for name, o := range kinds {
		i, c, seen := token.NewIssuer(engineOn(t, newStore(), retrysafe.Policy{}), &o), new(till), map[string]bool{}
		for range 1000 {
			text := issueToken(t, i, "ann")
			assert.True(t, !seen[text], "%s: tokens differ", name)
			seen[text] = true
			assert.True(t, len(text) >= 22 && len(text) <= 255 && strings.Trim(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") == "", "%s: %q", name, text)
		}
		text := issueToken(t, i, "ann")
		for _, tenant := range []string{"bob", "", "Ann", "ann ", strings.Repeat("a", 600)} {
			assert.Equal(t, c.pay(t, i, tenant, text), "refused", "%s: tenant %q", name, tenant)
		}
		assert.Equal(t, c.pay(t, i, "ann", text), "ran", "%s", name)
		assert.Equal(t, c.pay(t, i, "bob", text), "refused", "%s: another's, used", name)
		long := issueToken(t, i, strings.Repeat("a", 600))
		assert.Equal(t, c.pay(t, i, strings.Repeat("a", 600), long), "ran", "%s: a long tenant", name)
		assert.Equal(t, c.pay(t, i, "ann", strings.Repeat("x", 600)), "refused", "%s: a long token", name)
		_, err := token.Do(ctx, i, "ann", "", c.charge)
		assert.ErrorIs(t, err, retrysafe.ErrInvalidKey, "%s: no token", name)
	}
}

// TestManyAtOnce: one use runs, and all callers get its answer.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	for name, o := range kinds {
		s := newStore()
		issuers := make([]*token.Issuer, 4) // processes
		for p := range issuers {
			issuers[p] = token.NewIssuer(engineOn(t, s, retrysafe.Policy{Wait: 20 * time.Second}), &o)
		}
		c, text, first := new(till), issueToken(t, issuers[0], "ann"), atomic.Int64{}
		var wg sync.WaitGroup
		errs := make([]error, 100)
		for n := range errs {
			wg.Go(func() {
				res, err := token.Do(ctx, issuers[n%len(issuers)], "ann", text, c.charge)
				if errs[n] = err; err == nil {
					first.Add(res.Value)
				}
			})
		}
		wg.Wait()
		assert.NoError(t, errors.Join(errs...), "%s", name)
		assert.Equal(t, c.n.Load(), int64(1), "%s: runs", name)
		assert.Equal(t, first.Load(), int64(100), "%s: each was told 1", name)
	}
}

// TestLostRepliesOfIssue: the store has confirmed each token that is issued, and was asked for it
// once.
func TestLostRepliesOfIssue(t *testing.T) {
	t.Parallel()
	for _, f := range []storetest.Fault{storetest.LoseRequest, storetest.LoseReply} {
		asked := map[string]int{}
		s := &watched{Store: newStore(), asked: asked}
		i := token.NewIssuer(engineOn(t, storetest.NewFaulty(s, func(op string, n int) storetest.Fault {
			if op == "issue" && n%3 != 0 {
				return f
			}
			return 0
		}), retrysafe.Policy{}), nil)
		c := new(till)
		for range 5 {
			text := issueToken(t, i, "ann")
			assert.Equal(t, asked[text], 1, "times that the store was asked for this token")
			assert.Equal(t, c.pay(t, i, "ann", text), "ran", "it is good")
		}
	}
	i := token.NewIssuer(engineOn(t, storetest.NewFaulty(newStore(), func(string, int) storetest.Fault { return storetest.LoseRequest }), retrysafe.Policy{}), nil)
	_, err := i.Issue(ctx, "ann")
	assert.ErrorIs(t, err, retrysafe.ErrUnavailable, "the store is away")
	gone, cancel := context.WithCancel(ctx)
	cancel()
	_, err = token.NewIssuer(engineOn(t, newStore(), retrysafe.Policy{}), nil).Issue(gone, "ann")
	assert.ErrorIs(t, err, context.Canceled, "the caller has gone")
}

// watched counts the Issue calls for each token.
type watched struct {
	*memstore.Store
	asked map[string]int
}

func (w *watched) Issue(ctx context.Context, req storeapi.IssueRequest) (storeapi.Status, error) {
	w.asked[req.Key.ID]++
	return w.Store.Issue(ctx, req)
}

func TestStoreThatIssuesNothing(t *testing.T) {
	t.Parallel()
	s := struct{ storeapi.Store }{newStore()}
	stored := token.NewIssuer(engineOn(t, s, retrysafe.Policy{}), nil)
	_, err := stored.Issue(ctx, "ann")
	assert.ErrorIs(t, err, errors.ErrUnsupported, "issue")
	signed := token.NewIssuer(engineOn(t, s, retrysafe.Policy{}), &token.Options{StatelessSecret: secret})
	_, err = token.Run(ctx, signed, "ann", issueToken(t, signed, "ann"), func(context.Context) error { return nil })
	assert.ErrorIs(t, err, errors.ErrUnsupported, "the first use of a stateless token")
}

// TestTake: Take guarantees at most once, and loses work that Do would not lose.
func TestTake(t *testing.T) {
	t.Parallel()
	i := token.NewIssuer(engineOn(t, newStore(), retrysafe.Policy{}), nil)
	text, taken := issueToken(t, i, "ann"), atomic.Int64{}
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if i.Take(ctx, "ann", text) == nil {
				taken.Add(1)
			}
		})
	}
	wg.Wait()
	assert.Equal(t, taken.Load(), int64(1), "takers of 50 at once")
	assert.ErrorIs(t, i.Take(ctx, "ann", text), retrysafe.ErrDuplicate, "later")
	assert.ErrorIs(t, i.Take(ctx, "bob", text), retrysafe.ErrNotIssued, "another tenant")

	// The card was declined and nothing was charged. With Take the customer learns that the payment
	// was done; with Do a retry runs.
	declined := errors.New("the card was declined")
	taking, doing := issueToken(t, i, "ann"), issueToken(t, i, "ann")
	assert.NoError(t, i.Take(ctx, "ann", taking), "take; then the work fails, or the process dies")
	assert.ErrorIs(t, i.Take(ctx, "ann", taking), retrysafe.ErrDuplicate, "a repeat is told that it was done, and it was not")
	_, err := token.Run(ctx, i, "ann", doing, func(context.Context) error { return retrysafe.NothingDone(declined) })
	assert.ErrorIs(t, err, declined, "the first use")
	replayed, err := token.Run(ctx, i, "ann", doing, func(context.Context) error { return nil })
	assert.True(t, err == nil && !replayed, "a repeat runs: %v", err)
}
