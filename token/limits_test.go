package token_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/token"
)

// asked returns zero if the issuer gives a token, or else the time to wait.
func asked(t *testing.T, i *token.Issuer, tenant string) time.Duration {
	t.Helper()
	_, err := i.Issue(ctx, tenant)
	if err == nil {
		return 0
	}
	assert.ErrorIs(t, err, token.ErrTooMany, "the only error here")
	var e *retrysafe.Error
	assert.True(t, errors.As(err, &e) && e.RetryAfter > 0, "it says how long to wait: %v", err)
	return e.RetryAfter
}

// wanted asks for n tokens, which the issuer must give.
func wanted(t *testing.T, i *token.Issuer, tenant string, n int) {
	t.Helper()
	for k := range n {
		assert.Equal(t, asked(t, i, tenant), 0, "token %d of %d for %q", k+1, n, tenant)
	}
}

func TestRate(t *testing.T) {
	bubble(t, func(t *testing.T) {
		i := token.NewIssuer(engineOn(t, newStore(), retrysafe.Policy{}), &token.Options{Rate: 3})
		wanted(t, i, "ann", 2)
		time.Sleep(20 * time.Second)
		wanted(t, i, "ann", 1)
		assert.Equal(t, asked(t, i, "ann"), 40*time.Second, "wait of the fourth in a minute")
		wanted(t, i, "bob", 3)
		wanted(t, i, "", 3) // callers without a tenant share one limit
		assert.True(t, asked(t, i, "") > 0, "the fourth of the anonymous")
		time.Sleep(40*time.Second - time.Millisecond)
		assert.Equal(t, asked(t, i, "ann"), time.Millisecond, "wait just before")
		time.Sleep(time.Millisecond)
		wanted(t, i, "ann", 2)
		assert.Equal(t, asked(t, i, "ann"), 20*time.Second, "wait of the next")
	})
}

func TestDefaultsAndNoLimits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		i := token.NewIssuer(engineOn(t, newStore(), retrysafe.Policy{}), nil)
		for range 5 {
			wanted(t, i, "ann", 60)
			assert.Equal(t, asked(t, i, "ann"), time.Minute, "the 61st in a minute")
			time.Sleep(time.Minute)
		}
		free := token.NewIssuer(engineOn(t, newStore(), retrysafe.Policy{}), &token.Options{Rate: -1, Outstanding: -1})
		wanted(t, free, "ann", 2000)
		wanted(t, free, "", 2000)
	})
}

func TestOutstanding(t *testing.T) {
	t.Parallel()
	for name, secret := range map[string][]byte{"stored": nil, "stateless": secret} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				i := token.NewIssuer(engineOn(t, newStore(), retrysafe.Policy{}), &token.Options{
					Rate: -1, Life: 10 * time.Minute, Outstanding: 5, Total: 12, StatelessSecret: secret,
				})
				wanted(t, i, "ann", 5)
				assert.Equal(t, asked(t, i, "ann"), 10*time.Minute, "a sixth of one tenant")
				time.Sleep(time.Minute)
				wanted(t, i, "bob", 5)
				wanted(t, i, "carl", 2)
				assert.Equal(t, asked(t, i, "carl"), 9*time.Minute, "a thirteenth in all")
				time.Sleep(9 * time.Minute)
				wanted(t, i, "carl", 3)
				wanted(t, i, "ann", 2)
				assert.Equal(t, asked(t, i, "ann"), time.Minute, "the next in all")
			})
		})
	}
}

func TestAnonymous(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := engineOn(t, newStore(), retrysafe.Policy{})
		none := token.NewIssuer(e, &token.Options{Anonymous: -1})
		_, err := none.Issue(ctx, "")
		assert.ErrorIs(t, err, token.ErrAnonymous, "a caller without a principal")
		wanted(t, none, "ann", 1)
		many := token.NewIssuer(e, &token.Options{Rate: 1, Anonymous: 4})
		wanted(t, many, "", 4)
		assert.Equal(t, asked(t, many, ""), time.Minute, "the fifth")
		wanted(t, many, "ann", 1)
		assert.Equal(t, asked(t, many, "ann"), time.Minute, "the second of one who is known")
		free := token.NewIssuer(e, &token.Options{Rate: -1})
		wanted(t, free, "", 500)
	})
}

// TestManyTenants: the limits forget tokens whose time has passed.
func TestManyTenants(t *testing.T) {
	bubble(t, func(t *testing.T) {
		i := token.NewIssuer(engineOn(t, newStore(), retrysafe.Policy{}), &token.Options{Life: time.Second, Total: 100, StatelessSecret: secret})
		for round := range 20 {
			for n := range 100 {
				wanted(t, i, fmt.Sprint(round, n), 1)
			}
			assert.Equal(t, asked(t, i, "one more"), time.Minute, "a short life counts for a minute")
			time.Sleep(time.Minute)
		}
	})
}
