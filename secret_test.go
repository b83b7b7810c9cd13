package retrysafe_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/stores/storetest"
)

// withSecret returns an engine of the namespace shop.
func withSecret(t *testing.T, s storeapi.Store, secret string) *retrysafe.Engine {
	t.Helper()
	return engineWith(t, s, &retrysafe.Options{Namespace: "shop", Secret: []byte(secret), Sweep: -1})
}

const oneSecret, otherSecret = "the secret of the shop", "another secret of the shop"

// TestCheckSecret: the first caller decides which secret the others must have.
func TestCheckSecret(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ first, then, says string }{
		"the same":                   {oneSecret, oneSecret, ""},
		"none in both":               {"", "", ""},
		"another":                    {oneSecret, otherSecret, `namespace "shop" was used with another secret`},
		"one, and this has none":     {oneSecret, "", `namespace "shop" was used with a secret, and this process has none`},
		"none, and this process has": {"", oneSecret, `namespace "shop" was used without a secret, and this process has one`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStore()
			assert.NoError(t, withSecret(t, s, c.first).CheckSecret(ctx), "first")
			err := withSecret(t, s, c.then).CheckSecret(ctx)
			if c.says == "" {
				assert.NoError(t, err, "second")
				return
			}
			assert.ErrorIs(t, err, retrysafe.ErrSecretChanged, "second")
			assert.Contains(t, err.Error(), c.says, "what is different")
			assert.Contains(t, err.Error(), "retrysafe secret replace", "what to do")
			for _, secret := range []string{c.first, c.then} {
				assert.True(t, secret == "" || !strings.Contains(err.Error(), secret), "the error has the secret: %v", err)
			}
			_, again := retrysafe.Retryable(err)
			assert.True(t, !again, "a retry cannot help")
			assert.NoError(t, withSecret(t, s, c.first).CheckSecret(ctx), "the first one again")
		})
	}
}

// TestCheckSecretNamespaces: each namespace has a check value of its own.
func TestCheckSecretNamespaces(t *testing.T) {
	t.Parallel()
	s := newStore()
	assert.NoError(t, withSecret(t, s, oneSecret).CheckSecret(ctx), "shop")
	bank := engineWith(t, s, &retrysafe.Options{Namespace: "bank", Secret: []byte(otherSecret), Sweep: -1})
	assert.NoError(t, bank.CheckSecret(ctx), "bank")
}

// TestCheckSecretIsKept: the record never expires, a sweep leaves it, and it holds no secret.
func TestCheckSecretIsKept(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStore()
		assert.NoError(t, withSecret(t, s, oneSecret).CheckSecret(ctx), "first")
		time.Sleep(50 * 365 * 24 * time.Hour)
		_, err := s.Sweep(ctx, 1000)
		assert.NoError(t, err, "sweep")
		assert.ErrorIs(t, withSecret(t, s, otherSecret).CheckSecret(ctx), retrysafe.ErrSecretChanged, "after fifty years")
		page, err := s.List(ctx, storeapi.ListRequest{})
		assert.True(t, err == nil && len(page.Records) == 1, "records: %d, %v", len(page.Records), err)
		assert.True(t, page.Records[0].Expires.IsZero() && !strings.Contains(string(page.Records[0].Binding), oneSecret), "the record: %+v", page.Records[0])
	})
}

// TestCheckSecretAtOnce: of many first callers with two secrets, those with one of them pass.
func TestCheckSecretAtOnce(t *testing.T) {
	t.Parallel()
	s := newStore()
	secrets := []string{oneSecret, otherSecret}
	passed := make([][]bool, len(secrets))
	var all sync.WaitGroup
	for i, secret := range secrets {
		passed[i] = make([]bool, 20)
		for n := range passed[i] {
			e := withSecret(t, s, secret)
			all.Go(func() {
				err := e.CheckSecret(ctx)
				if passed[i][n] = err == nil; err != nil {
					assert.ErrorIs(t, err, retrysafe.ErrSecretChanged, "a caller")
				}
			})
		}
	}
	all.Wait()
	for i := range secrets {
		for n := range passed[i] {
			assert.Equal(t, passed[i][n], passed[i][0], "a caller with the secret %d", i)
		}
	}
	assert.True(t, passed[0][0] != passed[1][0], "passed: %v and %v", passed[0][0], passed[1][0])
}

// TestCheckSecretFaults: lost requests and replies do not let a wrong secret pass, nor refuse the
// right one.
func TestCheckSecretFaults(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]storetest.Fault{
		"request": storetest.LoseRequest, "reply": storetest.LoseReply, "late": storetest.Delay, "hang": storetest.Block, "hang after": storetest.BlockReply,
	} {
		for _, op := range []string{"lookup", "acquire"} {
			t.Run(op+" "+name, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					f := storetest.NewFaulty(newStore(), only(op, fault, 1, 1))
					assert.NoError(t, withSecret(t, f, oneSecret).CheckSecret(ctx), "first")
					f.Deliver()
					assert.NoError(t, withSecret(t, f, oneSecret).CheckSecret(ctx), "the same secret")
					assert.ErrorIs(t, withSecret(t, f, otherSecret).CheckSecret(ctx), retrysafe.ErrSecretChanged, "another secret")
				})
			})
		}
	}
}

// TestCheckSecretLateWrite: a caller that has given up writes nothing later.
func TestCheckSecretLateWrite(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := storetest.NewFaulty(newStore(), only("acquire", storetest.Delay, 1, 3))
		err := withSecret(t, f, oneSecret).CheckSecret(ctx)
		assert.ErrorIs(t, err, retrysafe.ErrUnavailable, "no answer")
		time.Sleep(time.Minute)
		for _, late := range f.Deliver() {
			assert.ErrorIs(t, late, retrysafe.ErrTooLate, "a late write")
		}
		assert.NoError(t, withSecret(t, f, otherSecret).CheckSecret(ctx), "another process is the first")
	})
}

// TestCheckSecretProcessDies: a first caller that dies in the middle has written the value or not.
func TestCheckSecretProcessDies(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault storetest.Fault
		wrote bool
	}{"before": {storetest.Block, false}, "after": {storetest.BlockReply, true}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := storetest.NewFaulty(newStore(), only("acquire", c.fault, 1, 1))
				dying, cancel := context.WithTimeout(ctx, time.Second)
				defer cancel()
				assert.ErrorIs(t, withSecret(t, f, oneSecret).CheckSecret(dying), retrysafe.ErrUnavailable, "the one that dies")
				err := withSecret(t, f, otherSecret).CheckSecret(ctx)
				assert.Equal(t, err != nil, c.wrote, "another secret: refused")
			})
		})
	}
}

// TestCheckSecretForeignRecord: a record of another form is an error, and not a pass.
func TestCheckSecretForeignRecord(t *testing.T) {
	t.Parallel()
	s := newStore()
	e := withSecret(t, s, oneSecret)
	_, err := retrysafe.Run(ctx, e.Layer("secret"), retrysafe.Key{Operation: "secret", ID: "check"}, func(context.Context) error { return nil })
	assert.NoError(t, err, "a call on the layer")
	err = e.CheckSecret(ctx)
	assert.True(t, err != nil, "no error")
	assert.Contains(t, err.Error(), "cannot be read by this build", "the error")
}
