package rpcidem

import (
	"context"
	"errors"
	"slices"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem"
)

// Guard runs methods once for each key. It can be used concurrently.
type Guard struct {
	engine *retrysafe.Engine
	o      Options
	policy retrysafe.Policy
}

// NewGuard returns a guard. It panics on options that [Options.Validate] refuses.
func NewGuard(e *retrysafe.Engine, o *Options) *Guard {
	if e == nil {
		panic("rpcidem: NewGuard needs an engine; retrysafe.New makes one")
	}
	if o == nil {
		o = new(Options)
	}
	if err := o.Validate(e.Policy()); err != nil {
		panic(err)
	}
	g := &Guard{o: *o, policy: o.Policy.Or(e.Policy())}
	if g.o.Metadata == "" {
		g.o.Metadata = DefaultMetadata
	}
	if g.o.MinKey == 0 {
		g.o.MinKey = 22
	}
	if g.o.Layer == "" {
		g.o.Layer = "rpc"
	}
	own := g.policy
	own.MaxAnswer = retrysafe.MaxStored // the guard measures the message; the stored form is larger
	g.engine = e.Layer(g.o.Layer).WithPolicy(own)
	return g
}

// Call is one call of a method.
type Call struct {
	// Method is the full name of the method, /package.Service/Method.
	Method   string
	Metadata Metadata
	// Payload returns the bytes of the request, which are the same in each retry.
	Payload func() ([]byte, error)
}

// Served describes how a call was served.
type Served struct {
	// Guarded reports that the call had a key.
	Guarded bool
	// Replayed reports that the answer is that of an earlier call, and the method did not run.
	Replayed bool
	// Unconfirmed reports that the store has not yet confirmed that it has the answer.
	Unconfirmed bool
}

// Names of the metadata of an answer, also of an error.
const (
	// ReplayedMetadata is "true" if the answer is that of an earlier call.
	ReplayedMetadata = "idempotency-replayed"
	// StoredMetadata is "unconfirmed" if the store has not yet confirmed that it has the answer.
	StoredMetadata = "idempotency-stored"
)

// Metadata returns what the metadata of the answer says. name is empty if it says nothing.
func (s Served) Metadata() (name, value string) {
	switch {
	case s.Replayed:
		return ReplayedMetadata, "true"
	case s.Unconfirmed:
		return StoredMetadata, "unconfirmed"
	}
	return "", ""
}

// Guards reports whether a method is guarded.
func (g *Guard) Guards(method string) bool { return g.o.Methods == nil || g.o.Methods(method) }

// Keyed reports whether a call has a key. A call to a stream with a key must be refused.
func (g *Guard) Keyed(md Metadata) bool { return len(md(g.o.Metadata)) > 0 }

// Result is the result of a method that ran.
type Result struct {
	Code Code
	// Err is the method's error. Its marks ([retrysafe.NothingDone], [retrysafe.InDoubt]) take
	// precedence over its code.
	Err error
	// Reply returns the form that is stored. It is called for guarded calls only. If it returns an
	// error, the answer is not stored, and duplicates get a refusal that says so.
	Reply func() (*Reply, error)
}

// Serve answers a call. If run ran, its answer is the answer, and Serve returns nil. A duplicate
// gets the first call's *Reply. A *Refusal is an answer instead of both. The context of run does
// not end with the caller's, and run is called at most once. A panic of run leaves the key in doubt
// (under Reexecute it releases the key) and continues to Serve's caller.
func (g *Guard) Serve(ctx context.Context, c *Call, run func(context.Context) Result) (*Reply, Served, *Refusal) {
	if !g.Guards(c.Method) {
		run(ctx)
		return nil, Served{}, nil
	}
	key, options, refusal := g.identifyCall(ctx, c)
	switch {
	case refusal != nil:
		return nil, Served{}, refusal
	case key == nil:
		run(ctx)
		return nil, Served{}, nil
	}
	served := Served{Guarded: true}
	if a, ok := retrysafe.AttemptFrom(ctx); ok && a.Layer() == g.o.Layer && a.Key() == *key {
		run(ctx) // an outer guard has the key: this one would wait for it
		return nil, served, nil
	}
	a, rec, err := g.engine.Begin(ctx, *key, options...)
	switch {
	case err != nil:
		return nil, served, refusalOf(err)
	case a == nil:
		served.Replayed = true
		reply, refusal := replayRecord(rec)
		return reply, served, refusal
	}
	served.Unconfirmed, refusal = g.runMethod(a, run)
	return nil, served, refusal
}

// identifyCall returns the key of a call, or nil if it has none and needs none.
func (g *Guard) identifyCall(ctx context.Context, c *Call) (*retrysafe.Key, []retrysafe.CallOption, *Refusal) {
	who, err := g.o.Tenant(ctx, c.Metadata)
	if err != nil {
		return nil, nil, refusalFor(retrysafe.CodeTenantMissing, err)
	}
	if g.o.Rate.PerSecond > 0 {
		if err := g.engine.Allow(ctx, who, c.Method, g.o.Rate); err != nil {
			return nil, nil, refusalOf(err)
		}
	}
	lines := c.Metadata(g.o.Metadata)
	if len(lines) == 0 {
		if g.o.Key == Required {
			return nil, nil, refusalFor(retrysafe.CodeKeyMissing, nil)
		}
		return nil, nil, nil
	}
	id, err := httpidem.ParseKey(lines)
	switch {
	case err != nil:
		return nil, nil, refusalFor(retrysafe.CodeKeyMalformed, err)
	case who == "" && len(id) < g.o.MinKey:
		return nil, nil, refusalFor(retrysafe.CodeKeyTooShort, nil)
	}
	payload, err := c.Payload()
	if err != nil {
		return nil, nil, refusalFor(retrysafe.CodeRequestUnreadable, err)
	}
	options := []retrysafe.CallOption{retrysafe.WithFingerprint(payloadDigest(c.Method, payload)), retrysafe.Detached()}
	if g.o.Binding != nil {
		options = append(options, retrysafe.WithBinding(g.o.Binding(ctx, c.Metadata)))
	}
	return &retrysafe.Key{Tenant: retrysafe.KeyPart(who), Operation: retrysafe.KeyPart(c.Method), ID: id}, options, nil
}

var errNothingDone = retrysafe.NothingDone(errors.New("the method says that nothing was done"))

var errMethodCrashed = errors.New("the method panicked or ended its goroutine")

// runMethod runs the method under an attempt, and finishes the attempt according to the result.
func (g *Guard) runMethod(a *retrysafe.Attempt, run func(context.Context) Result) (unconfirmed bool, refusal *Refusal) {
	ctx := a.Context()
	defer func() {
		if a.Ended() { // also by the method itself
			return
		}
		if g.policy.OnDoubt == retrysafe.Reexecute {
			_ = a.Release(ctx, errMethodCrashed)
			return
		}
		_ = a.LeaveInDoubt(ctx, errMethodCrashed)
	}()
	res := run(ctx)
	if a.Ended() {
		return false, nil
	}
	switch g.resultOutcome(res.Code, res.Err) {
	case retrysafe.NotDone:
		var why error
		if o, _ := retrysafe.Marked(res.Err); o == retrysafe.NotDone {
			why = errNothingDone // counts also if the attempt was lost
		}
		_ = a.Release(ctx, why) // if the release fails, the lease expires
		return false, nil
	case retrysafe.Doubtful:
		_ = a.LeaveInDoubt(ctx, nil)
		return false, nil
	}
	err := a.Complete(ctx, g.storedAnswer(res))
	switch {
	case err == nil:
		return false, nil
	case errors.Is(err, retrysafe.ErrUnconfirmed):
		return true, nil
	case errors.Is(err, retrysafe.ErrLeaseLost), errors.Is(err, retrysafe.ErrStepsChanged):
		// the call belongs to another attempt's work: this result is not its outcome
		return false, refusalOf(err)
	}
	// The store has refused the answer and said so. The work is done, and a duplicate finds it in
	// doubt.
	return true, nil
}

// resultOutcome returns what the result of a method that ran means for its key.
func (g *Guard) resultOutcome(code Code, err error) retrysafe.Outcome {
	if _, marked := retrysafe.Marked(err); marked {
		o := retrysafe.Policy{OnDoubt: g.policy.OnDoubt}.OutcomeOf(err)
		if o == retrysafe.Failed {
			return retrysafe.Done // stored, with its code
		}
		return o
	}
	notRun := code.NotRun() || slices.Contains(g.o.NotRun, code)
	if g.o.Classify != nil {
		switch o := g.o.Classify(code, err); {
		case o == retrysafe.NotDone && g.policy.OnDoubt != retrysafe.Reexecute && !notRun:
			return retrysafe.Doubtful
		case o == retrysafe.Failed:
			return retrysafe.Done
		case o != 0:
			return o
		}
	}
	if notRun {
		return retrysafe.NotDone
	}
	return code.outcome(g.policy.OnDoubt)
}
