package retrysafe_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/stores/storetest"
)

// detective is a Reconcile that counts its calls.
type detective struct {
	counter
	says  retrysafe.Resolution
	err   error
	takes time.Duration

	mu    sync.Mutex
	asked []retrysafe.Record
	fence retrysafe.Fence // of the attempt that asked
}

func (d *detective) ask(ctx context.Context, r retrysafe.Record) (retrysafe.Resolution, error) {
	_ = d.fail(nil)
	d.mu.Lock()
	d.asked = append(d.asked, r)
	if a, ok := retrysafe.AttemptFrom(ctx); ok {
		d.fence = a.Fence()
	}
	d.mu.Unlock()
	time.Sleep(d.takes)
	return d.says, d.err
}

// policy returns a policy with a lease of a minute.
func (d *detective) policy() retrysafe.Policy {
	return retrysafe.Policy{Lease: time.Minute, Reconcile: d.ask}
}

// TestReconcile: fifty callers at once get each outcome of Reconcile, for an attempt that reported
// its doubt and for one whose lease expired.
func TestReconcile(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		says   retrysafe.Resolution
		err    error
		starts int64
		want   string // what callers get
	}{
		"done":           {says: retrysafe.Resolution{Outcome: retrysafe.Done, Answer: found}, want: "found out <nil>"},
		"failed":         {says: retrysafe.Resolution{Outcome: retrysafe.Failed, Failure: &retrysafe.Failure{Code: "declined"}}, want: " declined"},
		"not done":       {says: retrysafe.Resolution{Outcome: retrysafe.NotDone}, starts: 1, want: "receipt <nil>"},
		"still in doubt": {says: retrysafe.Resolution{Outcome: retrysafe.Doubtful}, want: " in doubt"},
		"nothing said":   {want: " in doubt"},
		"an error":       {err: errWork, want: " in doubt"},
	} {
		for _, lapsed := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " lapsed ", lapsed), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					d, c := &detective{says: tt.says, err: tt.err, takes: time.Second}, new(counter)
					s := newStore()
					e := engineOn(t, s, d.policy())
					if lapsed {
						crashed(t, s, retrysafe.Policy{Lease: time.Minute})
						time.Sleep(time.Minute)
					} else {
						doubtful(t, e)
					}
					before := lookup(t, e, charge)
					time.Sleep(2 * time.Minute)
					var all sync.WaitGroup
					for range 50 {
						all.Go(func() {
							res, err := retrysafe.Do(ctx, e, charge, c.work, retrysafe.WithPolicy(retrysafe.Policy{Wait: time.Minute}))
							assert.Equal(t, said(res, err), tt.want, "a caller")
						})
					}
					all.Wait()
					d.started(t, 1)
					c.started(t, tt.starts)
					assert.Equal(t, d.asked[0].Fence, before.Fence, "the record that is asked about")
					assert.True(t, d.fence > before.Fence, "the attempt that asks has a fence of its own")
				})
			})
		}
	}
}

// said returns the answer, or one word for the error.
func said(res retrysafe.Result[string], err error) string {
	var f *retrysafe.Failure
	switch {
	case errors.As(err, &f):
		return res.Value + " " + f.Code
	case errors.Is(err, retrysafe.ErrInDoubt):
		return res.Value + " in doubt"
	}
	return fmt.Sprint(res.Value, " ", err)
}

// TestReconcileNotTooEarly: Reconcile is called when a doubt is two leases old, and callers get the
// time until then.
func TestReconcileNotTooEarly(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := &detective{says: retrysafe.Resolution{Outcome: retrysafe.Doubtful}}
		e := engineOn(t, newStore(), d.policy())
		doubtful(t, e)
		ask := func() time.Duration {
			_, err := retrysafe.Do(ctx, e, charge, new(counter).work)
			assert.ErrorIs(t, err, retrysafe.ErrInDoubt, "a call")
			after, ok := retrysafe.Retryable(err)
			assert.True(t, ok, "it may be asked again: %v", err)
			return after
		}
		assert.Equal(t, ask(), 2*time.Minute, "at once")
		time.Sleep(2*time.Minute - time.Second)
		assert.Equal(t, ask(), time.Second, "a second before it is time")
		d.started(t, 0)
		time.Sleep(time.Second)
		assert.Equal(t, ask(), 2*time.Minute, "when it is time")
		d.started(t, 1)
		assert.Equal(t, ask(), 2*time.Minute, "not again")
		d.started(t, 1)
		time.Sleep(2 * time.Minute)
		ask()
		d.started(t, 2)
	})
}

// TestReconcileFencesTheOldHolder: a slow holder cannot finish any more after Reconcile was called
// for it. One that finishes before that counts.
func TestReconcileFencesTheOldHolder(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, d := newStore(), &detective{says: retrysafe.Resolution{Outcome: retrysafe.Done, Answer: found}}
		slow := storetest.NewFaulty(s, func(op string, _ int) storetest.Fault {
			if op == "complete" {
				return storetest.Delay // it hangs in the network
			}
			return 0
		})
		a, _, err := engineOn(t, slow, retrysafe.Policy{Lease: time.Minute, MaxRun: time.Minute}).Begin(ctx, charge)
		assert.NoError(t, err, "begin")
		_ = a.Complete(ctx, retrysafe.Answer{Codec: "json", Body: []byte(`"late"`), Kept: true})
		time.Sleep(4 * time.Minute)
		e := engineOn(t, s, d.policy())
		res, err := retrysafe.Do(ctx, e, charge, new(counter).work)
		assert.Equal(t, said(res, err), "found out <nil>", "the verdict")
		slow.Deliver()
		res, err = retrysafe.Do(ctx, e, charge, new(counter).work)
		assert.Equal(t, said(res, err), "found out <nil>", "after the late answer came")
	})
}

// TestReconcileLeavesALiveHolder: the holder has come back between the look and the takeover.
func TestReconcileLeavesALiveHolder(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, d := newStore(), &detective{says: retrysafe.Resolution{Outcome: retrysafe.NotDone}}
		crashed(t, s, retrysafe.Policy{Lease: time.Minute})
		time.Sleep(3 * time.Minute)
		key := storeapi.StoreKey{Namespace: "app", Layer: "fn", Key: charge}
		rec, err := s.Lookup(ctx, key)
		assert.NoError(t, err, "lookup")
		e := engineOn(t, storetest.NewFaulty(s, func(op string, call int) storetest.Fault {
			if op == "acquire" && call == 2 {
				assert.NoError(t, s.Extend(ctx, storeapi.ExtendRequest{Key: key, Owner: rec.Owner, Fence: rec.Fence, Lease: time.Minute}), "the holder's heartbeat")
			}
			return 0
		}), d.policy())
		c := new(counter)
		_, err = retrysafe.Do(ctx, e, charge, c.work)
		assert.ErrorIs(t, err, retrysafe.ErrInProgress, "the call")
		d.started(t, 0)
		c.started(t, 0)
	})
}

// TestReconcileCrashes: a panic of Reconcile leaves the key in doubt, and continues up the stack.
func TestReconcileCrashes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := retrysafe.Policy{Lease: time.Minute, Reconcile: func(context.Context, retrysafe.Record) (retrysafe.Resolution, error) { panic("crash") }}
		e := engineOn(t, newStore(), p)
		doubtful(t, e)
		time.Sleep(2 * time.Minute)
		func() {
			defer func() { assert.Equal(t, recover(), any("crash"), "the panic goes on") }()
			_, _ = retrysafe.Do(ctx, e, charge, new(counter).work)
		}()
		rec := lookup(t, e, charge)
		assert.True(t, rec.InDoubt(), "in doubt: %v", rec.State)
		done, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		assert.NoError(t, e.Shutdown(done), "nothing is left behind")
	})
}

// TestReconcileUnderFaults: any one store call of it is lost, on its way there or back. The work
// never runs if Reconcile says that it was done, and in the end that outcome counts.
func TestReconcileUnderFaults(t *testing.T) {
	t.Parallel()
	for _, op := range []string{"acquire", "complete", "release", "lookup"} {
		for _, fault := range []storetest.Fault{storetest.LoseRequest, storetest.LoseReply} {
			for call := range 4 {
				for _, outcome := range []retrysafe.Outcome{retrysafe.Done, retrysafe.NotDone} {
					t.Run(fmt.Sprint(op, fault, call, outcome), func(t *testing.T) {
						bubble(t, func(t *testing.T) {
							inner, d, c := newStore(), &detective{says: retrysafe.Resolution{Outcome: outcome, Answer: found}}, new(counter)
							doubtful(t, engineOn(t, inner, retrysafe.Policy{Lease: time.Minute}))
							time.Sleep(2 * time.Minute)
							e := engineOn(t, storetest.NewFaulty(inner, only(op, fault, call, call)), d.policy())
							want := map[retrysafe.Outcome]string{retrysafe.Done: "found out <nil>", retrysafe.NotDone: "receipt <nil>"}[outcome]
							got := ""
							for range 10 {
								res, err := retrysafe.Do(ctx, e, charge, c.work)
								if got = said(res, err); got == want {
									break
								}
								time.Sleep(3 * time.Minute)
							}
							assert.Equal(t, got, want, "in the end")
							assert.True(t, c.n.Load() <= 1 && (outcome == retrysafe.NotDone || c.n.Load() == 0), "starts: %d", c.n.Load())
						})
					})
				}
			}
		}
	}
}

// TestReconcileAll: it settles what is old enough, and nothing else.
func TestReconcileAll(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := &detective{}
		answers := map[string]retrysafe.Resolution{
			"done":  {Outcome: retrysafe.Done, Answer: found},
			"not":   {Outcome: retrysafe.NotDone},
			"still": {Outcome: retrysafe.Doubtful},
			"young": {Outcome: retrysafe.Done, Answer: found},
			"other": {Outcome: retrysafe.Done, Answer: found},
		}
		p := retrysafe.Policy{Lease: time.Minute, Reconcile: func(ctx context.Context, r retrysafe.Record) (retrysafe.Resolution, error) {
			_, _ = d.ask(ctx, r)
			return answers[r.Key.ID], nil
		}}
		s := newStore()
		e := engineOn(t, s, retrysafe.Policy{})
		work := func(context.Context, string) (string, error) { return "", errWork }
		op := retrysafe.NewOperation(e, "charge", work, &p)
		other := retrysafe.NewOperation(e, "mail", work, &p)
		doubt := func(op *retrysafe.Operation[string, string], id string) {
			_, err := op.Do(ctx, "ann", id, "in")
			assert.ErrorIs(t, err, retrysafe.ErrInDoubt, "%s", id)
		}
		for _, id := range []string{"done", "not", "still"} {
			doubt(op, id)
		}
		began := lookup(t, e, retrysafe.Key{Tenant: "ann", Operation: "charge", ID: "still"}).Updated
		doubt(other, "other")
		time.Sleep(2 * time.Minute)
		doubt(op, "young")
		n, err := op.ReconcileAll(ctx)
		assert.NoError(t, err, "all of an operation")
		assert.Equal(t, n, 2, "settled")
		d.started(t, 3)
		state := func(operation, id string) string {
			rec := lookup(t, e, retrysafe.Key{Tenant: "ann", Operation: operation, ID: id})
			return fmt.Sprintf("%v %v;", rec.State, rec.InDoubt())
		}
		assert.Equal(t, state("charge", "done")+state("charge", "not"), "completed false;released false;", "what was settled")
		assert.Equal(t, state("charge", "still")+state("charge", "young")+state("mail", "other"), "in-progress true;in-progress true;in-progress true;", "what was not")
		still := lookup(t, e, retrysafe.Key{Tenant: "ann", Operation: "charge", ID: "still"})
		assert.True(t, still.DoubtSince.Equal(began) && still.Age() >= 2*time.Minute, "a question without an answer does not make the doubt younger: %v, %v", still.DoubtSince, still.Age())
		n, err = e.WithPolicy(p).ReconcileAll(ctx, "")
		assert.Equal(t, fmt.Sprint(n, err), "1 <nil>", "all of the layer: the other one")
		_, err = e.ReconcileAll(ctx, "")
		assert.True(t, err != nil, "without Reconcile: %v", err)
	})
}

// TestReconcileAllNeedsALister: it also returns how far it came when the store goes away.
func TestReconcileAllNeedsALister(t *testing.T) {
	t.Parallel()
	d := new(detective)
	e := engineOn(t, struct{ storeapi.Store }{memstore.New(nil)}, d.policy())
	_, err := e.ReconcileAll(ctx, "")
	assert.ErrorIs(t, err, errors.ErrUnsupported, "a store that lists nothing")
	out := new(outage)
	out.on.Store(true)
	e = engineOn(t, storetest.NewFaulty(memstore.New(nil), out.hook), d.policy())
	_, err = e.ReconcileAll(ctx, "")
	assert.ErrorIs(t, err, retrysafe.ErrUnavailable, "a store that is away")
}

// TestReconcileAtShutdown: Reconcile ends with the engine, and the key stays in doubt.
func TestReconcileAtShutdown(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := retrysafe.Policy{Lease: time.Minute, Reconcile: func(ctx context.Context, _ retrysafe.Record) (retrysafe.Resolution, error) {
			<-ctx.Done()
			return retrysafe.Resolution{}, context.Cause(ctx)
		}}
		s := newStore()
		e := engineOn(t, s, p)
		doubtful(t, e)
		time.Sleep(2 * time.Minute)
		ended := make(chan error, 1)
		go func() {
			_, err := retrysafe.Do(ctx, e, charge, new(counter).work)
			ended <- err
		}()
		synctest.Wait()
		soon, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		assert.True(t, e.Shutdown(soon) != nil, "shutdown gives up")
		assert.ErrorIs(t, <-ended, retrysafe.ErrInDoubt, "the call")
		rec, err := s.Lookup(ctx, storeapi.StoreKey{Namespace: "app", Layer: "fn", Key: charge})
		assert.NoError(t, err, "lookup")
		assert.True(t, rec.State == retrysafe.StateInProgress, "state: %v", rec.State)
	})
}
