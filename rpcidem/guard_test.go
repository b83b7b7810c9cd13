package rpcidem_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/rpcidem"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

func engine(t *testing.T, s storeapi.Store) *retrysafe.Engine {
	t.Helper()
	e := retrysafe.New(s, &retrysafe.Options{Sweep: -1, Secret: []byte("16 bytes or more"), Logger: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() { _ = e.Shutdown(context.Background()) })
	return e
}

const method = "/shop.v1.Orders/Place"

// call returns a call with a key.
func call(key string, payload func() ([]byte, error)) *rpcidem.Call {
	if payload == nil {
		payload = func() ([]byte, error) { return []byte("tea"), nil }
	}
	return &rpcidem.Call{Method: method, Payload: payload, Metadata: func(name string) []string {
		if name == rpcidem.DefaultMetadata && key != "" {
			return []string{key}
		}
		return nil
	}}
}

func done() (*rpcidem.Reply, error) { return &rpcidem.Reply{Type: "shop.v1.Order"}, nil }

func panics(t *testing.T, f func(), what string) {
	t.Helper()
	defer func() { assert.True(t, recover() != nil, "%s panics", what) }()
	f()
}

// TestOptions: all errors of invalid options are reported at once, and NewGuard panics with them.
func TestOptions(t *testing.T) {
	t.Parallel()
	good := rpcidem.Options{Tenant: rpcidem.Global}
	assert.NoError(t, good.Validate(retrysafe.Policy{}), "good options")
	for want, change := range map[string]func(*rpcidem.Options){
		"Tenant is not set": func(o *rpcidem.Options) { o.Tenant = nil },
		"Key is 3":          func(o *rpcidem.Options) { o.Key = 3 },
		"MinKey is -1":      func(o *rpcidem.Options) { o.MinKey = -1 },
		"MinKey is 256":     func(o *rpcidem.Options) { o.MinKey = 256 },
		"Rate: ":            func(o *rpcidem.Options) { o.Rate.PerSecond = -1 },
		"Duplicate is Succeed": func(o *rpcidem.Options) {
			o.Policy.Duplicate = retrysafe.Succeed
		},
		"Lease":              func(o *rpcidem.Options) { o.Policy.Lease = -1 },
		"NotRun has OK":      func(o *rpcidem.Options) { o.NotRun = []rpcidem.Code{rpcidem.OK} },
		"NotRun has CODE_17": func(o *rpcidem.Options) { o.NotRun = []rpcidem.Code{17} },
		"NotRun has INTERNAL, which also comes after a method has acted": func(o *rpcidem.Options) {
			o.NotRun = []rpcidem.Code{rpcidem.Aborted, rpcidem.Internal}
		},
	} {
		o := good
		change(&o)
		err := o.Validate(retrysafe.Policy{})
		assert.True(t, err != nil && strings.Contains(err.Error(), want), "%s: %v", want, err)
		o.MinKey, o.Tenant = -1, nil
		err = o.Validate(retrysafe.Policy{})
		assert.True(t, strings.Contains(err.Error(), "Tenant") && strings.Contains(err.Error(), "MinKey"), "all at once: %v", err)
		panics(t, func() { rpcidem.NewGuard(engine(t, memstore.New(nil)), &o) }, "NewGuard")
	}
	listed := good
	listed.NotRun = []rpcidem.Code{rpcidem.Aborted, rpcidem.Unavailable}
	assert.NoError(t, listed.Validate(retrysafe.Policy{}), "codes that methods answer before they act")
	listed.NotRun = []rpcidem.Code{rpcidem.Internal}
	assert.NoError(t, listed.Validate(retrysafe.Policy{OnDoubt: retrysafe.Reexecute}), "INTERNAL under Reexecute")
	assert.True(t, good.Validate(retrysafe.Policy{Duplicate: retrysafe.Succeed}) != nil, "the engine's policy counts, too")
	panics(t, func() { rpcidem.NewGuard(nil, &good) }, "no engine")
	panics(t, func() { rpcidem.NewGuard(engine(t, memstore.New(nil)), nil) }, "no tenant")
}

// strict is a store that refuses to store answers, and says so.
type strict struct{ storeapi.Store }

func (strict) Complete(context.Context, storeapi.CompleteRequest) (retrysafe.Record, error) {
	return retrysafe.Record{}, errors.ErrUnsupported
}

// TestAnswerThatIsNotTaken: if a store refuses an answer, the caller gets it all the same, and the
// record says that the outcome is unknown.
func TestAnswerThatIsNotTaken(t *testing.T) {
	t.Parallel()
	g := rpcidem.NewGuard(engine(t, strict{memstore.New(nil)}), &rpcidem.Options{Tenant: rpcidem.Global})
	reply, served, refusal := g.Serve(t.Context(), call("k", nil), func(context.Context) rpcidem.Result { return rpcidem.Result{Reply: done} })
	assert.True(t, reply == nil && refusal == nil, "the method's answer is the answer: %v", refusal)
	assert.True(t, served.Guarded && served.Unconfirmed && !served.Replayed, "it is unconfirmed: %+v", served)
}

// TestOtherSteps: if a program has left out a step of an earlier attempt, its answer is not the
// outcome of the call.
func TestOtherSteps(t *testing.T) {
	t.Parallel()
	g := rpcidem.NewGuard(engine(t, memstore.New(nil)), &rpcidem.Options{
		Tenant: rpcidem.Global, Policy: retrysafe.Policy{OnDoubt: retrysafe.Reexecute},
	})
	_, _, refusal := g.Serve(t.Context(), call("k", nil), func(ctx context.Context) rpcidem.Result {
		_, err := retrysafe.Step(ctx, "charge", func(context.Context) (int, error) { return 7, nil })
		assert.NoError(t, err, "the first attempt's step")
		return rpcidem.Result{Code: rpcidem.Unavailable, Err: errors.New("half done"), Reply: done}
	})
	assert.True(t, refusal == nil, "the first attempt: %v", refusal)
	_, served, refusal := g.Serve(t.Context(), call("k", nil), func(context.Context) rpcidem.Result { return rpcidem.Result{Reply: done} })
	assert.True(t, refusal != nil && refusal.Reason == "OUTCOME_UNKNOWN" && refusal.RetryAfter == 0, "the second: %v, %+v", refusal, served)
}

// TestGuardInAGuard: if an interceptor is installed twice, two guards have one key. The inner guard
// lets the call pass.
func TestGuardInAGuard(t *testing.T) {
	t.Parallel()
	e := engine(t, memstore.New(nil))
	g := rpcidem.NewGuard(e, &rpcidem.Options{Tenant: rpcidem.Global})
	runs := 0
	for i := range 2 {
		reply, served, refusal := g.Serve(t.Context(), call("k", nil), func(ctx context.Context) rpcidem.Result {
			_, inner, refusal := g.Serve(ctx, call("k", nil), func(context.Context) rpcidem.Result {
				runs++
				return rpcidem.Result{Reply: done}
			})
			assert.True(t, refusal == nil && !inner.Replayed, "inside: %v", refusal)
			return rpcidem.Result{Reply: done}
		})
		assert.True(t, refusal == nil, "outside: %v", refusal)
		assert.Equal(t, served.Replayed, i == 1, "replayed")
		assert.Equal(t, reply != nil, i == 1, "a reply")
	}
	assert.Equal(t, runs, 1, "runs")
}

// TestFormsThatFail: a request that cannot be encoded is refused before anything runs. An answer
// that cannot be encoded is given once, and duplicates get a refusal that says so.
func TestFormsThatFail(t *testing.T) {
	t.Parallel()
	g := rpcidem.NewGuard(engine(t, memstore.New(nil)), &rpcidem.Options{Tenant: rpcidem.Global})
	none := errors.New("no protocol buffer")
	runs := 0
	run := func(context.Context) rpcidem.Result {
		runs++
		return rpcidem.Result{Reply: func() (*rpcidem.Reply, error) { return nil, none }}
	}
	_, _, refusal := g.Serve(t.Context(), call("k", func() ([]byte, error) { return nil, none }), run)
	assert.True(t, refusal != nil && refusal.Reason == "REQUEST_UNREADABLE" && errors.Is(refusal, none), "the request: %v", refusal)
	assert.True(t, !strings.Contains(refusal.Error(), none.Error()), "the cause is told: %v", refusal)
	assert.Equal(t, runs, 0, "runs")
	_, _, refusal = g.Serve(t.Context(), call("k", nil), run)
	assert.True(t, refusal == nil, "the first: %v", refusal)
	_, _, refusal = g.Serve(t.Context(), call("k", nil), run)
	assert.True(t, refusal != nil && refusal.Reason == "ANSWER_NOT_KEPT", "the repeat: %v", refusal)
	assert.Equal(t, runs, 1, "runs")
	_, _, refusal = g.Serve(t.Context(), call("", func() ([]byte, error) { return nil, none }), run)
	assert.True(t, refusal == nil, "a call without a key needs no form: %v", refusal)
}

// TestKeyIsFrozen: a later build knows the calls that this one has done.
func TestKeyIsFrozen(t *testing.T) {
	t.Parallel()
	s := memstore.New(nil)
	g := rpcidem.NewGuard(engine(t, s), &rpcidem.Options{Tenant: rpcidem.Global})
	_, _, refusal := g.Serve(t.Context(), call("k/1", nil), func(context.Context) rpcidem.Result { return rpcidem.Result{Reply: done} })
	assert.True(t, refusal == nil, "serve: %v", refusal)
	page, err := s.List(t.Context(), storeapi.ListRequest{})
	assert.NoError(t, err, "list")
	assert.Equal(t, len(page.Records), 1, "records")
	text, err := page.Records[0].Key.MarshalText()
	assert.NoError(t, err, "key")
	assert.Equal(t, string(text), "app/rpc/global/%2Fshop.v1.Orders%2FPlace/k%2F1", "the key")
}
