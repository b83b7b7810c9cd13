package storetest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// Wrap returns a wrapper around a store.
type Wrap = func(storeapi.Store) storeapi.Store

// RunWrapper tests a wrapper (metrics, a prefix, a breaker) over a store that claims everything and
// over one that claims nothing. The wrapper must implement every optional interface and forward
// each call with unchanged arguments and answers. If the inner store lacks an interface, its calls
// must return errors.ErrUnsupported. An error must stay the same for errors.Is.
//
// A wrapper that changes records on purpose (one that seals answers) passes if wrap puts a second
// wrapper below it that undoes the change. Test it with [Run] over the store that it wraps, too.
func RunWrapper(t *testing.T, wrap Wrap) {
	t.Helper()
	runWrapper(testingT{t}, wrap)
}

func runWrapper(t tb, wrap Wrap) {
	t.Helper()
	t.subtest("implements what is optional", false, func(t tb) {
		for _, inner := range []struct {
			claims string
			store  storeapi.Store
		}{{"everything", &claimsAll{}}, {"nothing", &claimsNone{}}} {
			s := wrap(inner.store)
			assert.True(t, implements[storeapi.Issuer](s), "the wrapper implements Issuer over a store that claims %s", inner.claims)
			assert.True(t, implements[storeapi.Limiter](s), "the wrapper implements Limiter over a store that claims %s", inner.claims)
			assert.True(t, implements[storeapi.UsageReader](s), "the wrapper implements UsageReader over a store that claims %s", inner.claims)
			assert.True(t, implements[storeapi.Lister](s), "the wrapper implements Lister over a store that claims %s", inner.claims)
			assert.True(t, implements[storeapi.Notifier](s), "the wrapper implements Notifier over a store that claims %s", inner.claims)
			assert.True(t, implements[storeapi.Sweeper](s), "the wrapper implements Sweeper over a store that claims %s", inner.claims)
			assert.True(t, implements[storeapi.Keeper](s), "the wrapper implements Keeper over a store that claims %s", inner.claims)
			assert.True(t, implements[storeapi.Forgetter](s), "the wrapper implements Forgetter over a store that claims %s", inner.claims)
			assert.True(t, implements[storeapi.Batcher](s), "the wrapper implements Batcher over a store that claims %s", inner.claims)
		}
	})
	t.subtest("forwards Shared", true, func(t tb) {
		shared, ok := wrap(&claimsAll{claimsNone{new(spy)}}).(storeapi.Sharer)
		assert.True(t, ok && shared.Shared(), "the wrapper says of a shared store that it is")
		alone, ok := wrap(&claimsNone{new(spy)}).(storeapi.Sharer)
		assert.True(t, !ok || !alone.Shared(), "the wrapper says of a store that is not shared that it is")
	})
	for _, op := range wrapped {
		t.subtest("forwards "+op.name, true, func(t tb) {
			spy := new(spy)
			s := wrap(&claimsAll{claimsNone{spy}})
			op.setReply(spy, nil)
			got, err := op.call(context.WithValue(t.Context(), markKey{}, op.name), s)
			assert.NoError(t, err, "%s through the wrapper", op.name)
			assert.Equal(t, spy.op, op.name, "call that the inner store saw")
			assert.Equal(t, spy.req, op.req, "request of %s that the inner store saw", op.name)
			assert.Equal(t, spy.mark, any(op.name), "value of the context that the inner store saw")
			assert.Equal(t, got, op.reply, "answer of %s", op.name)
		})
		t.subtest("keeps errors of "+op.name, true, func(t tb) {
			for _, want := range wrapperErrors {
				spy := new(spy)
				s := wrap(&claimsAll{claimsNone{spy}})
				op.setReply(spy, want)
				_, err := op.call(t.Context(), s)
				assert.ErrorIs(t, err, want, "%s through the wrapper, of a store that fails", op.name)
				var kind *kindError
				if errors.As(want, &kind) {
					kind = nil
					assert.True(t, errors.As(err, &kind), "the type of an error is found by errors.As")
				}
			}
		})
		if op.optional {
			t.subtest("lacks "+op.name, true, func(t tb) {
				_, err := op.call(t.Context(), wrap(&claimsNone{new(spy)}))
				assert.ErrorIs(t, err, errors.ErrUnsupported, "%s over a store that lacks it", op.name)
			})
		} else {
			t.subtest("forwards "+op.name+" to a store that claims nothing", true, func(t tb) {
				spy := new(spy)
				op.setReply(spy, nil)
				got, err := op.call(t.Context(), wrap(&claimsNone{spy}))
				assert.NoError(t, err, "%s through the wrapper", op.name)
				assert.Equal(t, spy.req, op.req, "request of %s that the inner store saw", op.name)
				assert.Equal(t, got, op.reply, "answer of %s", op.name)
			})
		}
	}
	t.subtest("forwards every status", true, func(t tb) {
		for status := storeapi.StatusAcquired; status <= storeapi.StatusOwnerSpent; status++ {
			spy := &spy{reply: storeapi.Acquired{Status: status, Record: sampleRecord}}
			got, err := wrap(&claimsAll{claimsNone{spy}}).Acquire(t.Context(), sampleAcquire)
			assert.NoError(t, err, "Acquire that is told %s", statusName(status))
			wantStatus(t, got.Status, status, "through the wrapper")
			spy.reply = status
			if s, ok := wrap(&claimsAll{claimsNone{spy}}).(storeapi.Issuer); ok {
				issued, err := s.Issue(t.Context(), sampleIssue)
				assert.NoError(t, err, "Issue that is told %s", statusName(status))
				assert.Equal(t, statusName(issued), statusName(status), "status of Issue")
			}
		}
	})
}

func implements[I any](s storeapi.Store) bool {
	_, ok := s.(I)
	return ok
}

// kindError is an error with its own type.
type kindError struct{ host string }

func (k *kindError) Error() string { return "no route to " + k.host }

var wrapperErrors = []error{
	storeapi.ErrLeaseLost, storeapi.ErrInvalidKey, storeapi.ErrTooLate, storeapi.ErrInTransaction, errors.ErrUnsupported,
	context.Canceled, context.DeadlineExceeded, errors.New("connection reset"), &kindError{"db"},
	fmt.Errorf("dial: %w", &kindError{"db"}),
}
