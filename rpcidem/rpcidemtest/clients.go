package rpcidemtest

import (
	"context"
	"crypto/rand"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/rpcidem"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

var (
	quick = rpcidem.Retry{MinWait: time.Millisecond, MaxWait: time.Second}
	once  = rpcidem.Retry{MaxAttempts: 1}
)

// loseAnswers drops the answers of the first n tries, after the method has run.
func loseAnswers(n int64) func(func()) *Error {
	var tries atomic.Int64
	return func(next func()) *Error {
		next()
		if tries.Add(1) <= n {
			return &Error{Code: rpcidem.Unavailable, Message: "the connection was cut"}
		}
		return nil
	}
}

// testLostAnswers: lost answers cause no second effect, wherever the key comes from.
func testLostAnswers(t *testing.T, open Open) {
	var made atomic.Int64
	newKey := func() string {
		made.Add(1)
		return rand.Text()
	}
	for name, tt := range map[string]struct {
		ctx  context.Context
		keys []string
		o    rpcidem.ClientOptions
		code rpcidem.Code
		made int64 // keys made
	}{
		"a key of the context":  {ctx: httpidem.ContextWithKey(t.Context(), "order 7"), o: rpcidem.ClientOptions{Retry: quick}},
		"a key of the metadata": {ctx: httpidem.ContextWithKey(t.Context(), "é"), keys: []string{"k"}, o: rpcidem.ClientOptions{Retry: quick, NewKey: newKey}},
		"a key of another name": {ctx: httpidem.ContextWithKey(t.Context(), "k"), o: rpcidem.ClientOptions{Retry: quick, Metadata: "x-key"}},
		"a made key":            {o: rpcidem.ClientOptions{Retry: quick, NewKey: newKey}, made: 1},
		"no key":                {o: rpcidem.ClientOptions{Retry: quick}, code: rpcidem.Unavailable},
		"one try":               {o: rpcidem.ClientOptions{Retry: once, NewKey: newKey}, code: rpcidem.Unavailable, made: 1},
	} {
		made.Store(0)
		var runs atomic.Int64
		call := open(t, &Setup{
			Engine: newEngine(t, memstore.New(nil)), Options: &rpcidem.Options{Tenant: rpcidem.Global, Metadata: tt.o.Metadata}, Client: &tt.o, Between: loseAnswers(2),
			Method: func(context.Context, string) (string, *Error) {
				runs.Add(1)
				return "done", nil
			},
		})
		if tt.ctx == nil {
			tt.ctx = t.Context()
		}
		a := call(tt.ctx, Call{Keys: tt.keys, Request: "x"})
		assert.Equal(t, a.Code, tt.code, "%s: code of %+v", name, a)
		assert.Equal(t, runs.Load(), int64(1), "%s: runs", name)
		assert.Equal(t, a.Reply == "done", tt.code == rpcidem.OK, "%s: an answer", name)
		assert.Equal(t, made.Load(), tt.made, "%s: keys made", name)
	}
}

// testSentAgain: the client retries only if a retry may be answered differently, and not after its
// context has ended. It never sends an invalid key.
func testSentAgain(t *testing.T, open Open) {
	for name, tt := range map[string]struct {
		err  Error
		want int64
	}{
		"unavailable":         {Error{Code: rpcidem.Unavailable}, 4},
		"in progress":         {Error{Code: rpcidem.Aborted, Reason: "IN_PROGRESS", RetryAfter: time.Millisecond}, 4},
		"too many":            {Error{Code: rpcidem.ResourceExhausted, Reason: "TOO_MANY_KEYS", RetryAfter: time.Millisecond}, 4},
		"a doubt to be asked": {Error{Code: rpcidem.FailedPrecondition, Reason: "OUTCOME_UNKNOWN", RetryAfter: time.Millisecond}, 4},
		"aborted":             {Error{Code: rpcidem.Aborted}, 1},
		"exhausted":           {Error{Code: rpcidem.ResourceExhausted}, 1},
		"unknown outcome":     {Error{Code: rpcidem.FailedPrecondition, Reason: "OUTCOME_UNKNOWN"}, 1},
		"another payload":     {Error{Code: rpcidem.InvalidArgument, Reason: "PAYLOAD_MISMATCH", RetryAfter: time.Millisecond}, 1},
		"done":                {Error{Code: rpcidem.AlreadyExists, Reason: "ALREADY_DONE"}, 1},
		"the method's own":    {Error{Code: rpcidem.Internal}, 1},
		"longer than we wait": {Error{Code: rpcidem.Unavailable, RetryAfter: time.Hour}, 1},
	} {
		var tries atomic.Int64
		tt.err.Message = "m"
		call := open(t, &Setup{
			Engine: newEngine(t, memstore.New(nil)), Options: &rpcidem.Options{Tenant: rpcidem.Global}, Client: &rpcidem.ClientOptions{Retry: quick},
			Method: func(context.Context, string) (string, *Error) { return "", &tt.err },
			Between: func(func()) *Error {
				tries.Add(1)
				return &tt.err
			},
		})
		a := call(httpidem.ContextWithKey(t.Context(), "k"), Call{Request: "x"})
		assert.Equal(t, a.Code, tt.err.Code, "%s: the last answer", name)
		assert.Equal(t, a.Reason, tt.err.Reason, "%s: its reason", name)
		assert.Equal(t, tries.Load(), tt.want, "%s: tries", name)
		a = call(httpidem.ContextWithKey(t.Context(), "kéy"), Call{Request: "x"})
		assert.Equal(t, a.Code, rpcidem.InvalidArgument, "a key that cannot be sent")
		assert.True(t, !strings.Contains(a.Message, "kéy"), "the key is in the error: %s", a.Message)
		assert.Equal(t, tries.Load(), tt.want, "nothing was sent")
		gone, leave := context.WithCancel(t.Context())
		leave()
		assert.True(t, call(httpidem.ContextWithKey(gone, "k"), Call{Request: "x"}).Code != rpcidem.OK, "a caller that has gone")
		assert.True(t, tries.Load() <= tt.want+1, "a caller that has gone does not try again")
	}
}

// testChain: a method that calls another service does so once, with a key that all its attempts
// share, although the method itself is retried.
func testChain(t *testing.T, open Open) {
	var charges atomic.Int64
	bank := open(t, &Setup{
		Engine: newEngine(t, memstore.New(nil)), Options: &rpcidem.Options{Tenant: rpcidem.Global}, Client: &rpcidem.ClientOptions{Retry: once}, Between: loseAnswers(1),
		Method: func(context.Context, string) (string, *Error) {
			charges.Add(1)
			return "charged", nil
		},
	})
	shop := open(t, &Setup{
		Engine:  newEngine(t, memstore.New(nil)),
		Options: &rpcidem.Options{Tenant: rpcidem.Global, Policy: retrysafe.Policy{OnDoubt: retrysafe.Reexecute}},
		Client:  &rpcidem.ClientOptions{Retry: quick},
		Method: func(ctx context.Context, _ string) (string, *Error) {
			a, ok := retrysafe.AttemptFrom(ctx)
			assert.True(t, ok, "a guarded method has an attempt")
			charged := bank(httpidem.ContextWithKey(ctx, a.KeyFor("charge")), Call{Request: "7 EUR"})
			if charged.Code != rpcidem.OK {
				return "", &Error{Code: rpcidem.Unavailable, Message: "the bank is away"}
			}
			return charged.Reply, nil
		},
	})
	a := shop(httpidem.ContextWithKey(t.Context(), "order 7"), Call{Request: "x"})
	assert.Equal(t, a.Reply, "charged", "the answer: %+v", a)
	assert.Equal(t, charges.Load(), int64(1), "charges, though the shop's first attempt lost the bank's answer")
}
