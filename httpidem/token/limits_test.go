package token_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem/token"
	"github.com/retrysafe/retrysafe/internal/assert"
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
				assert.Equal(t, asked(t, i, "ann"), 9*time.Minute, "a sixth of one tenant, when all places are taken")
				wanted(t, i, "carl", 1) // in place of one of bob, who has most and the newest
				assert.Equal(t, asked(t, i, "carl"), 50*time.Second, "the next place that is taken")
				assert.Equal(t, asked(t, i, "bob"), 50*time.Second, "bob, who has four now")
				time.Sleep(50 * time.Second)
				wanted(t, i, "bob", 1)                     // in place of one of ann
				time.Sleep(8*time.Minute + 10*time.Second) // ann's have passed
				wanted(t, i, "carl", 2)
				wanted(t, i, "ann", 2)
				assert.Equal(t, asked(t, i, "carl"), time.Minute, "a sixth of carl")
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
			assert.Equal(t, asked(t, i, fmt.Sprint(round, 0)), time.Minute, "a short life counts for a minute")
			time.Sleep(time.Minute)
		}
	})
}

// TestInventedTenants: a flood of invented tenants does not lock others out, and the operator is
// told of it. No more than twice Total come through.
func TestInventedTenants(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var log bytes.Buffer
		const total = 1000
		i := token.NewIssuer(engineOn(t, newStore(), retrysafe.Policy{}), &token.Options{
			Total: total, StatelessSecret: secret, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		})
		wanted(t, i, "ann", 1)
		issued := 0
		for n := range 5 * 60 * 10 { // ten a second, for as long as a token lives
			if asked(t, i, fmt.Sprint("invented ", n)) == 0 {
				issued++
			}
			if n%600 == 599 { // bob retries as Retry-After says
				waited := time.Duration(0)
				for wait := time.Second; wait > 0; {
					if wait = asked(t, i, fmt.Sprint("bob ", n)); wait > 0 {
						time.Sleep(wait)
						waited += wait
					}
				}
				assert.True(t, waited <= 10*time.Second, "minute %d: bob waits %v", n/600, waited)
			}
			time.Sleep(100 * time.Millisecond)
		}
		assert.True(t, issued > total && issued <= 2*total+total/10, "tokens of invented tenants: %d", issued)
		assert.True(t, asked(t, i, "ann") <= 10*time.Second, "ann, who was there before")
		warnings := strings.Count(log.String(), "level=WARN")
		assert.True(t, warnings >= 1 && warnings <= 5, "warnings in 5 minutes: %d", warnings)
		assert.True(t, !strings.Contains(log.String(), "invented"), "no tenant in the log: %s", log.String())
	})
}

// TestLargestAccount: one account that takes all it can get gives way to others, again and again.
func TestLargestAccount(t *testing.T) {
	bubble(t, func(t *testing.T) {
		i := token.NewIssuer(engineOn(t, newStore(), retrysafe.Policy{}), &token.Options{
			Rate: -1, Outstanding: -1, Total: 100, StatelessSecret: secret, Logger: slog.New(slog.DiscardHandler),
		})
		wanted(t, i, "greedy", 100)
		for n := range 10 {
			wanted(t, i, fmt.Sprint("caller ", n), 1)
			assert.Equal(t, asked(t, i, "greedy"), 5*time.Minute, "the one that has most")
		}
		time.Sleep(5 * time.Minute)
		wanted(t, i, "greedy", 100)
	})
}
