package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/redisclient"
	"github.com/retrysafe/retrysafe/stores/redisstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// deaf is a client that records its calls and gets no replies. It does not support batches.
type deaf struct{ sent [][]redisclient.Call }

var errDeaf = errors.New("no answer")

func (d *deaf) Eval(_ context.Context, c redisclient.Call) redisclient.Reply {
	d.sent = append(d.sent, []redisclient.Call{c})
	return redisclient.Reply{Err: errDeaf}
}

// deafToMany is deaf with batches.
type deafToMany struct{ deaf }

func (d *deafToMany) EvalMany(_ context.Context, calls []redisclient.Call) []redisclient.Reply {
	d.sent = append(d.sent, calls)
	replies := make([]redisclient.Reply, len(calls))
	for i, c := range calls {
		// the owner, so that replies can be told apart
		replies[i].Err = fmt.Errorf("%s: %w", c.Args[0][8:24], errDeaf)
	}
	return replies
}

func newStoreOn(t *testing.T, c redisclient.Client) *redisstore.Store {
	t.Helper()
	s, err := redisstore.New(t.Context(), c, &redisstore.Options{Logger: slog.New(slog.DiscardHandler)})
	assert.NoError(t, err, "store")
	return s
}

func claimRequest(id string, owner byte) storeapi.AcquireRequest {
	return storeapi.AcquireRequest{
		Key:   storeapi.StoreKey{Namespace: "n", Layer: "fn", Key: storeapi.Key{Operation: "o", ID: id}},
		Owner: storeapi.Owner{owner}, Lease: time.Minute, Retention: time.Hour, OnDoubt: storeapi.Refuse,
	}
}

// TestBatchSendsAKeyOnceAtATime: a call that a client sends again must not arrive after a later
// call for its key.
func TestBatchSendsAKeyOnceAtATime(t *testing.T) {
	t.Parallel()
	c := new(deafToMany)
	reqs := []storeapi.AcquireRequest{claimRequest("a", 1), claimRequest("b", 2), claimRequest("a", 3), claimRequest("", 4), claimRequest("a", 5), claimRequest("b", 6), claimRequest("c", 7)}
	results, err := newStoreOn(t, c).AcquireBatch(t.Context(), reqs)
	assert.NoError(t, err, "the batch")
	var got []string
	for _, calls := range c.sent {
		text := ""
		for _, call := range calls {
			text += fmt.Sprint(call.Args[0][8])
		}
		got = append(got, text)
	}
	assert.Equal(t, got, []string{"127", "36", "5"}, "owners in each round")
	for i, r := range results {
		if i == 3 {
			assert.ErrorIs(t, r.Err, storeapi.ErrInvalidKey, "a call that cannot be made")
			continue
		}
		assert.ErrorIs(t, r.Err, errDeaf, "call %d", i)
		owner := string(reqs[i].Owner[:])
		assert.Contains(t, r.Err.Error(), owner, "the reply to call %d", i)
	}
}

// TestBatchNeedsAPipeliner: without a Pipeliner, batches are reported as unsupported.
func TestBatchNeedsAPipeliner(t *testing.T) {
	t.Parallel()
	c := new(deaf)
	_, err := newStoreOn(t, c).AcquireBatch(t.Context(), []storeapi.AcquireRequest{claimRequest("a", 1)})
	assert.ErrorIs(t, err, errors.ErrUnsupported, "a batch")
	assert.Equal(t, len(c.sent), 0, "calls")
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	many := new(deafToMany)
	_, err = newStoreOn(t, many).AcquireBatch(gone, []storeapi.AcquireRequest{claimRequest("a", 1)})
	assert.ErrorIs(t, err, context.Canceled, "a batch whose context has ended")
	assert.Equal(t, len(many.sent), 0, "calls")
}

// TestHeartbeatsAlone: calls that extend a lease are sent alone (E6); a client may send the others
// together.
func TestHeartbeatsAlone(t *testing.T) {
	t.Parallel()
	c := new(deaf)
	s := newStoreOn(t, c)
	alone := func() bool { return c.sent[len(c.sent)-1][0].Alone }
	req := claimRequest("a", 1)
	_, _ = s.Acquire(t.Context(), req)
	assert.True(t, !alone(), "a claim goes with others")
	for _, r := range []storeapi.ExtendRequest{{Lease: time.Minute}, {Lease: time.Minute, Works: true}} {
		r.Key, r.Owner, r.Fence = req.Key, req.Owner, 1
		_ = s.Extend(t.Context(), r)
		assert.True(t, alone(), "a heartbeat goes alone")
	}
	_, _ = s.Complete(t.Context(), storeapi.CompleteRequest{Key: req.Key, Owner: req.Owner, Fence: 1, State: storeapi.StateCompleted})
	assert.True(t, !alone(), "an end goes with others")
}
