package retrysafe_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/stores/storetest"
)

// plainStore is a store without any optional interface.
type plainStore struct{ storeapi.Store }

// refusingStore has the method and does not support it.
type refusingStore struct{ storeapi.Store }

func (refusingStore) Issue(context.Context, storeapi.IssueRequest) (storeapi.Status, error) {
	return 0, errors.ErrUnsupported
}

func TestIssue(t *testing.T) {
	t.Parallel()
	e, c := engineOn(t, newStore(), retrysafe.Policy{}), new(counter)
	_, err := retrysafe.Do(ctx, e, charge, c.work, retrysafe.MustBeIssued())
	assert.ErrorIs(t, err, retrysafe.ErrNotIssued, "a key that was not issued")
	c.started(t, 0)
	_, err = retrysafe.Do(ctx, e, retrysafe.Key{Operation: "charge", ID: "other"}, c.work)
	assert.NoError(t, err, "a key of the caller's own")
	_, err = retrysafe.Do(ctx, e, retrysafe.Key{Operation: "charge", ID: "other"}, c.work, retrysafe.MustBeIssued())
	assert.ErrorIs(t, err, retrysafe.ErrNotIssued, "a key that is known and was not issued")

	assert.NoError(t, e.Issue(ctx, charge, time.Minute), "issue")
	assert.Equal(t, lookup(t, e, charge).State, retrysafe.StateIssued, "state")
	assert.ErrorIs(t, e.Issue(ctx, charge, time.Minute), retrysafe.ErrNotIssued, "issue of what was issued")
	for i := range 3 {
		res, err := retrysafe.Do(ctx, e, charge, c.work, retrysafe.MustBeIssued())
		assert.NoError(t, err, "use %d", i)
		assert.Equal(t, res.Replayed, i > 0, "use %d is replayed", i)
	}
	c.started(t, 2)
	assert.ErrorIs(t, e.Issue(ctx, charge, time.Minute), retrysafe.ErrNotIssued, "issue of what was used")

	assert.ErrorIs(t, e.Issue(ctx, retrysafe.Key{}, time.Minute), retrysafe.ErrInvalidKey, "no key")
	assert.ErrorIs(t, e.Issue(ctx, charge, 0), retrysafe.ErrInvalidKey, "no life")
	assert.NoError(t, e.Shutdown(ctx), "shutdown")
	assert.ErrorIs(t, e.Issue(ctx, charge, time.Minute), retrysafe.ErrClosed, "after the end")
}

func TestIssueWithoutAnIssuer(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]storeapi.Store{"no method": plainStore{newStore()}, "a method that refuses": refusingStore{newStore()}} {
		e := engineOn(t, s, retrysafe.Policy{})
		err := e.Issue(ctx, charge, time.Minute)
		assert.ErrorIs(t, err, errors.ErrUnsupported, "%s: issue", name)
		assert.Contains(t, err.Error(), "use one that implements storeapi.Issuer", "%s: advice", name)
		signed := retrysafe.MustBeIssuedFor(0, time.Now().Add(time.Minute))
		_, err = retrysafe.Run(ctx, e, charge, func(context.Context) error { return nil }, signed)
		assert.ErrorIs(t, err, errors.ErrUnsupported, "%s: use of a signed key", name)
	}
}

// TestIssueUnanswered: an error means that the key must not be handed out, whatever the store has
// done.
func TestIssueUnanswered(t *testing.T) {
	t.Parallel()
	for _, f := range []storetest.Fault{storetest.LoseRequest, storetest.LoseReply} {
		e := engineOn(t, storetest.NewFaulty(newStore(), only("issue", f, 1, 1)), retrysafe.Policy{})
		assert.ErrorIs(t, e.Issue(ctx, charge, time.Minute), retrysafe.ErrUnavailable, "issue")
	}
}

func TestIssuedKeysAreNotForTransactions(t *testing.T) {
	t.Parallel()
	e := engineOn(t, newStore(), retrysafe.Policy{})
	_, err := retrysafe.DoTx(ctx, e, storeapi.TxStore[int](nil), charge, func(context.Context, int) (int, error) { return 0, nil }, retrysafe.MustBeIssued())
	assert.ErrorIs(t, err, errors.ErrUnsupported, "DoTx")
}

// heldUp is a store whose Issue comes late: the process was stopped between reading the clock and
// the call.
type heldUp struct {
	storeapi.Store
	issuer storeapi.Issuer
	until  chan struct{}
}

func (h heldUp) Issue(_ context.Context, req storeapi.IssueRequest) (storeapi.Status, error) {
	<-h.until
	return h.issuer.Issue(ctx, req)
}

// TestSignedKeyIssuedTooLate: a signed key was used and its record has expired. A process that read
// the clock in time and was held up issues it once more. That call does not run, nor do later ones.
func TestSignedKeyIssuedTooLate(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStore()
		h := heldUp{s, s, make(chan struct{})}
		e, stopped, c := engineOn(t, s, retrysafe.Policy{Retention: time.Hour}), engineOn(t, h, retrysafe.Policy{Retention: time.Hour}), new(counter)
		signed := retrysafe.MustBeIssuedFor(0, time.Now().Add(5*time.Minute))
		var held error
		go func() { _, held = retrysafe.Do(ctx, stopped, charge, c.work, signed) }()
		time.Sleep(time.Second)
		_, err := retrysafe.Do(ctx, e, charge, c.work, signed)
		assert.NoError(t, err, "the first use")
		time.Sleep(25 * time.Hour)
		close(h.until)
		synctest.Wait()
		assert.ErrorIs(t, held, retrysafe.ErrNotIssued, "the use that was held up")
		_, err = retrysafe.Do(ctx, e, charge, c.work, signed)
		assert.ErrorIs(t, err, retrysafe.ErrNotIssued, "a use after it")
		c.started(t, 1)
	})
}

// TestStoreTime: the time is the store's. The engine asks for it rarely, and estimates it while the
// store is away.
func TestStoreTime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		o, looks := new(outage), 0
		e := engineOn(t, storetest.NewFaulty(newStore(), func(op string, n int) storetest.Fault {
			looks++
			return o.hook(op, n)
		}), retrysafe.Policy{})
		o.on.Store(true)
		_, err := e.StoreTime(ctx)
		assert.ErrorIs(t, err, retrysafe.ErrUnavailable, "before there was a reply")
		o.on.Store(false)
		for range 10 {
			now, err := e.StoreTime(ctx)
			assert.NoError(t, err, "store time")
			assert.True(t, time.Until(now).Abs() < time.Millisecond, "it is now")
		}
		assert.Equal(t, looks, 2, "questions")
		time.Sleep(2 * time.Minute)
		o.on.Store(true)
		now, err := e.StoreTime(ctx)
		assert.NoError(t, err, "with an old reply")
		assert.True(t, time.Until(now).Abs() < time.Millisecond, "it is now")
		assert.Equal(t, looks, 3, "questions")
	})
}
