package retrysafe

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/retrysafe/retrysafe/internal/claim"
	"github.com/retrysafe/retrysafe/internal/parallel"
	"github.com/retrysafe/retrysafe/internal/storecall"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// Begun is the result for one key of a batch, as of [Engine.Begin]: exactly one field is set.
type Begun struct {
	Attempt *Attempt
	Record  *Record
	Err     error
}

// maxInFlight is how many calls of a batch are in flight at once, if each key has a call of its
// own.
const maxInFlight = 16

// BeginBatch is [Engine.Begin] for many keys, in as few round trips as the store can; see
// [storeapi.Batcher]. The result at index i is that of keys[i]. A batch is not a transaction: each
// key is acquired, or not, by itself.
//
// Of equal keys only the first is requested. The others get the same record or error. If the first
// was acquired, they get [ErrInProgress], since the caller cannot finish that attempt while it
// waits.
//
// A panic of [Policy].Reconcile reaches the caller after all keys were requested. What was acquired
// is then released.
func (e *Engine) BeginBatch(ctx context.Context, keys []Key, opts ...CallOption) []Begun {
	places := make(map[Key]int, len(keys)) // of the first of equal keys, in single
	single := make([]Key, 0, len(keys))
	for _, k := range keys {
		if _, again := places[k]; !again {
			places[k] = len(single)
			single = append(single, k)
		}
	}
	begun := e.beginDistinct(ctx, single, opts)
	if len(single) == len(keys) {
		return begun
	}
	all := make([]Begun, len(keys))
	given := make([]bool, len(single))
	for i, k := range keys {
		at := places[k]
		all[i] = begun[at]
		switch {
		case !given[at]:
		case all[i].Attempt != nil:
			all[i] = Begun{Err: e.c.wrapError(e.storeKey(k), all[i].Attempt.number, ErrInProgress, time.Second)}
		case all[i].Record != nil: // each caller may change what it gets
			all[i].Record = copyRecord(all[i].Record)
		}
		given[at] = true
	}
	return all
}

func copyRecord(r *Record) *Record {
	own := *r
	own.Answer.Body = bytes.Clone(r.Answer.Body)
	own.Fingerprint, own.Binding = bytes.Clone(r.Fingerprint), bytes.Clone(r.Binding)
	own.Earlier = slices.Clone(r.Earlier)
	return &own
}

// beginDistinct is BeginBatch for keys that differ.
func (e *Engine) beginDistinct(ctx context.Context, keys []Key, opts []CallOption) []Begun {
	b := &batchBegin{engine: e, keys: keys, options: e.defaults.withOptions(opts), begun: make([]Begun, len(keys)), decided: make([]bool, len(keys))}
	through := false
	defer func() {
		if !through { // Reconcile has panicked: the caller does not get what was acquired
			for _, one := range b.begun {
				if one.Attempt != nil {
					_ = one.Attempt.Release(ctx, errCrashed)
				}
			}
		}
	}()
	b.acquireTogether(ctx)
	var rest []int
	for i, told := range b.decided {
		if !told {
			rest = append(rest, i)
		}
	}
	parallel.Each(len(rest), maxInFlight, func(n int) {
		i := rest[n]
		b.begun[i].Attempt, b.begun[i].Record, b.begun[i].Err = e.Begin(ctx, keys[i], opts...)
	})
	through = true
	return b.begun
}

// batchBegin is one call of BeginBatch. Keys that the store's batch does not decide are requested
// again one by one: the batch has acquired nothing for them.
type batchBegin struct {
	engine  *Engine
	keys    []Key
	options *callOptions
	begun   []Begun
	decided []bool
}

// acquireTogether makes one AcquireBatch for the keys, if the store and the options allow that.
func (b *batchBegin) acquireTogether(ctx context.Context) {
	c := b.engine.c
	store, can := c.store.Inner().(storeapi.Batcher)
	if !can || len(b.keys) < 2 || b.options.err != nil || b.options.issued.must || b.options.policy.Limits != (Limits{}) || ctx.Err() != nil {
		return
	}
	if !c.store.KnowsTime() && c.store.ReadTime(ctx, b.engine.storeKey(b.keys[0])) != nil {
		return
	}
	var requests []storeapi.AcquireRequest
	var places []int
	sent := time.Now()
	for i, k := range b.keys {
		if k.Validate() != nil || !c.enterCall() {
			continue // Begin returns the error
		}
		req := c.acquireRequest(b.engine.storeKey(k), b.options)
		req.Owner, req.NotAfter = claim.NewOwner(), c.store.NotAfter(ctx, sent)
		requests, places = append(requests, req), append(places, i)
	}
	answers, err := c.store.AcquireBatch(ctx, store, requests, sent)
	for i, at := range places {
		if err != nil { // no key was requested
			c.life.Leave()
			continue
		}
		b.begun[at], b.decided[at] = b.toBegun(ctx, &requests[i], &answers[i], sent)
	}
}

// toBegun converts a store's answer to the result of Begin. It returns false if the key has to be
// requested again.
func (b *batchBegin) toBegun(ctx context.Context, req *storeapi.AcquireRequest, answer *storeapi.BatchResult[storeapi.Acquired], sent time.Time) (Begun, bool) {
	c, rec := b.engine.c, &answer.Value.Record
	var attempt *Attempt
	defer func() {
		if attempt == nil {
			c.life.Leave()
		}
	}()
	switch {
	case answer.Err != nil && storecall.MayBeApplied(answer.Err):
		c.claimer.GiveBack(req)
		call := c.traceCall(&ctx, req.Key)
		err := c.wrapError(req.Key, 0, storecall.Unavailable(answer.Err), time.Second)
		call.reportEnd(outcomeName(err), 0, err)
		return Begun{Err: err}, true
	case answer.Err != nil:
		return Begun{}, false
	}
	switch {
	case answer.Value.Status == storeapi.StatusAcquired:
		call := c.traceCall(&ctx, req.Key)
		var err error
		if attempt, err = c.startAttempt(ctx, rec, sent, b.options); attempt == nil {
			call.reportEnd(outcomeName(err), rec.Attempt, err)
			return Begun{Err: err}, true
		}
		attempt.reportBegun(call)
		return Begun{Attempt: attempt}, true
	case answer.Value.Status == storeapi.StatusFinished && b.options.policy.Duplicate != Reject:
		call := c.traceCall(&ctx, req.Key)
		call.noteRecord(rec)
		call.reportEnd("replayed", rec.Attempt, nil)
		return Begun{Record: rec}, true
	}
	return Begun{}, false
}

// CompleteBatch is [Attempt.Complete] for many attempts of this engine, in as few round trips as
// the store can. answers[i] is the answer of attempts[i], and the error at index i is its error.
func (e *Engine) CompleteBatch(ctx context.Context, attempts []*Attempt, answers []Answer) []error {
	errs := make([]error, len(attempts))
	store, can := e.c.store.Inner().(storeapi.Batcher)
	if !can || len(attempts) < 2 {
		parallel.Each(len(attempts), maxInFlight, func(i int) { errs[i] = attempts[i].Complete(ctx, answers[i]) })
		return errs
	}
	var places []int
	var endings []finishRequest
	var requests []storeapi.CompleteRequest
	for i, a := range attempts {
		if errs[i] = a.checkCompletion(ctx, &answers[i]); errs[i] != nil {
			continue
		}
		if !a.ended.CompareAndSwap(false, true) {
			errs[i] = a.c.wrapError(a.key, a.number, ErrEnded, 0)
			continue
		}
		ending := a.completionRequest(StateCompleted, answers[i])
		places, endings, requests = append(places, i), append(endings, ending), append(requests, ending.complete)
	}
	begun := time.Now()
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), storecall.AckTime)
	results, err := e.c.store.CompleteBatch(call, store, requests)
	cancel()
	if err != nil { // no call was made
		results = make([]storeapi.BatchResult[Record], len(requests))
	}
	var waits []int // in places: what the store has not answered
	for i, at := range places {
		if failed := results[i].Err; err != nil || failed != nil && storecall.MayBeApplied(failed) {
			waits = append(waits, i)
		} else {
			errs[at] = attempts[at].handleFirstReply(endings[i], begun, failed)
		}
	}
	parallel.Each(len(waits), maxInFlight, func(n int) {
		i := waits[n]
		a, failed := attempts[places[i]], results[i].Err
		if err != nil {
			failed = a.sendDetached(ctx, &endings[i], begun)
		}
		errs[places[i]] = a.handleFirstReply(endings[i], begun, failed)
	})
	return errs
}
