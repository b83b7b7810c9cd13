package retrysafe_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/stores/storetest"
)

// TestLostReplyOfResolve: a resolution whose reply was lost leaves the key in doubt; it must never
// open it.
func TestLostReplyOfResolve(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStore()
		e, c := engineOn(t, s, retrysafe.Policy{}), new(counter)
		rec := doubtful(t, e)
		ops := engineOn(t, storetest.NewFaulty(s, only("acquire", storetest.LoseReply, 1, 3)), retrysafe.Policy{})
		err := ops.Resolve(ctx, charge, retrysafe.Resolution{Fence: rec.Fence, Outcome: retrysafe.Done, Answer: found})
		assert.ErrorIs(t, err, retrysafe.ErrUnconfirmed, "resolve")
		time.Sleep(time.Minute)
		_, err = retrysafe.Do(ctx, e, charge, c.work)
		assert.ErrorIs(t, err, retrysafe.ErrInDoubt, "a call")
		c.started(t, 0)
		r := retrysafe.Resolution{Fence: lookup(t, e, charge).Fence, Outcome: retrysafe.Done, Answer: found}
		assert.NoError(t, ops.Resolve(ctx, charge, r), "resolve again, after a look")
	})
}

// TestLostTakeover: the claim that was lost did nothing, but the attempt before it may have. Its
// payload still counts.
func TestLostTakeover(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStore()
		p := retrysafe.Policy{OnDoubt: retrysafe.Reexecute}
		e := engineOn(t, s, p)
		_, _ = retrysafe.Do(ctx, e, charge, func(context.Context) (string, error) { return "", retrysafe.InDoubt(errWork) }, retrysafe.WithPayload("a"))
		lossy := engineOn(t, storetest.NewFaulty(s, only("acquire", storetest.LoseReply, 1, 3)), p)
		_, err := retrysafe.Do(ctx, lossy, charge, new(counter).work, retrysafe.WithPayload("a"))
		assert.ErrorIs(t, err, retrysafe.ErrUnavailable, "the takeover")
		time.Sleep(10 * time.Second)
		_, err = retrysafe.Do(ctx, e, charge, new(counter).work, retrysafe.WithPayload("b"))
		assert.ErrorIs(t, err, retrysafe.ErrFingerprintMismatch, "another payload")
		_, err = retrysafe.Do(ctx, e, charge, new(counter).work, retrysafe.WithPayload("a"))
		assert.NoError(t, err, "the same payload runs at once")
	})
}

func TestResolveKeepsTheRetention(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStore()
		e := engineOn(t, s, retrysafe.Policy{Retention: retrysafe.Forever})
		rec := doubtful(t, e)
		ops := engineOn(t, s, retrysafe.Policy{Retention: time.Hour})
		assert.NoError(t, ops.Resolve(ctx, charge, retrysafe.Resolution{Fence: rec.Fence, Outcome: retrysafe.Done, Answer: found}), "resolve")
		time.Sleep(365 * 24 * time.Hour)
		res, err := retrysafe.Do(ctx, e, charge, new(counter).work)
		assert.NoError(t, err, "a year later")
		assert.Equal(t, res.Value, "found out", "value")
	})
}

// TestVerdictKeepsTheRetention: the result of Reconcile is stored for the retention of the call
// that made the record, whichever call asked.
func TestVerdictKeepsTheRetention(t *testing.T) {
	t.Parallel()
	for _, outcome := range []retrysafe.Outcome{retrysafe.Done, retrysafe.Failed, retrysafe.NotDone} {
		for _, all := range []bool{true, false} {
			t.Run(fmt.Sprint(outcome, " all ", all), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					s, c := newStore(), new(counter)
					doubtful(t, engineOn(t, s, retrysafe.Policy{Retention: retrysafe.Forever}))
					d := &detective{says: retrysafe.Resolution{Outcome: outcome, Answer: found, Failure: &retrysafe.Failure{Code: "declined"}}}
					ops := engineOn(t, s, retrysafe.Policy{Retention: time.Hour, Reconcile: d.ask})
					time.Sleep(time.Hour)
					if all {
						n, err := ops.ReconcileAll(ctx, charge.Operation)
						assert.NoError(t, err, "ReconcileAll")
						assert.Equal(t, n, 1, "settled")
					} else {
						_, _ = retrysafe.Do(ctx, ops, charge, c.work)
					}
					time.Sleep(365 * 24 * time.Hour)
					rec := lookup(t, ops, charge)
					want := map[retrysafe.Outcome]retrysafe.State{
						retrysafe.Done: retrysafe.StateCompleted, retrysafe.Failed: retrysafe.StateFailed, retrysafe.NotDone: retrysafe.StateCompleted,
					}[outcome]
					if all && outcome == retrysafe.NotDone {
						want = retrysafe.StateReleased
					}
					assert.Equal(t, rec.State, want, "a year later")
				})
			})
		}
	}
}

// noTx runs work without a database.
type noTx struct{ fail error }

func (n noTx) RunTx(ctx context.Context, r storeapi.TxRequest, work func(context.Context, int) (retrysafe.State, retrysafe.Answer, error)) (retrysafe.Record, error) {
	if n.fail != nil {
		return retrysafe.Record{}, n.fail
	}
	state, answer, err := work(ctx, 1)
	return retrysafe.Record{Key: r.Key, Owner: r.Owner, State: state, Answer: answer, Attempt: 1, Fence: 7}, err
}

// TestSweeperStartsWithAnyCall: an engine whose first call is a transaction or a resolution sweeps
// too.
func TestSweeperStartsWithAnyCall(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]func(e *retrysafe.Engine){
		"transaction": func(e *retrysafe.Engine) {
			_, _ = retrysafe.DoTx(ctx, e, noTx{}, charge, func(context.Context, int) (int, error) { return 1, nil })
		},
		"resolution": func(e *retrysafe.Engine) {
			_ = e.Resolve(ctx, charge, retrysafe.Resolution{Fence: 1, Outcome: retrysafe.NotDone})
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := storetest.NewFaulty(newStore(), nil)
				call(engineWith(t, f, &retrysafe.Options{}))
				time.Sleep(10 * time.Minute)
				assert.True(t, f.Calls("sweep") > 3, "sweeps: %d", f.Calls("sweep"))
			})
		})
	}
}

type bomb struct{}

func (bomb) MarshalJSON() ([]byte, error) { panic("cannot be encoded") }

func TestCodecThatPanics(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := engineOn(t, newStore(), retrysafe.Policy{})
		_ = apart(func() error {
			_, err := retrysafe.Do(ctx, e, charge, func(context.Context) (bomb, error) { return bomb{}, nil })
			return err
		})
		assert.True(t, func() bool { r := lookup(t, e, charge); return r.InDoubt() }(), "the key is in doubt")
		assert.NoError(t, e.Shutdown(ctx), "and nothing is left running")
	})
}

// TestCompleteAfterMaxRun: work that took too long also has an answer, and one lost request does
// not lose it.
func TestCompleteAfterMaxRun(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := storetest.NewFaulty(newStore(), only("complete", storetest.LoseRequest, 1, 2))
		e := engineOn(t, f, retrysafe.Policy{Lease: 10 * time.Second, MaxRun: 20 * time.Second})
		res, err := retrysafe.Do(ctx, e, charge, func(context.Context) (string, error) { time.Sleep(time.Minute); return "late", nil })
		assert.NoError(t, err, "call")
		assert.True(t, res.Stored, "stored")
	})
}

// TestMarksCountForOneCall: the mark of an inner call says nothing about what the outer call did
// before.
func TestMarksCountForOneCall(t *testing.T) {
	t.Parallel()
	for name, mark := range map[string]func(error) error{
		"nothing done": retrysafe.NothingDone,
		"permanent":    func(err error) error { return retrysafe.Permanent("declined", err) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, outer := engineOn(t, newStore(), retrysafe.Policy{}), new(counter)
			k := retrysafe.Key{Operation: "checkout", ID: "k"}
			call := func() error {
				_, err := retrysafe.Do(ctx, e, k, func(ctx context.Context) (string, error) {
					_ = outer.fail(nil) // it has acted
					_, err := retrysafe.Do(ctx, e, charge, func(context.Context) (string, error) { return "", mark(errWork) })
					return "", fmt.Errorf("charge: %w", err)
				})
				return err
			}
			assert.ErrorIs(t, call(), retrysafe.ErrInDoubt, "the first call")
			assert.ErrorIs(t, call(), retrysafe.ErrInDoubt, "the second call")
			outer.started(t, 1)
		})
	}
}

func TestRetryable(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		onDoubt retrysafe.OnDoubt
		err     error
		want    bool
	}{
		"nothing done":               {retrysafe.Refuse, retrysafe.NothingDone(errWork), true},
		"any error, refuse":          {retrysafe.Refuse, errWork, false},
		"any error, reexecute":       {retrysafe.Reexecute, errWork, true},
		"permanent":                  {retrysafe.Refuse, retrysafe.Permanent("no", errWork), false},
		"an inner error that is not": {retrysafe.Refuse, &retrysafe.Error{Err: retrysafe.ErrInDoubt}, false},
	} {
		e := engineOn(t, newStore(), retrysafe.Policy{OnDoubt: tt.onDoubt})
		_, err := retrysafe.Do(ctx, e, charge, func(context.Context) (string, error) { return "", tt.err })
		_, ok := retrysafe.Retryable(err)
		assert.Equal(t, ok, tt.want, "%s: %v", name, err)
		assert.True(t, errors.Is(err, errWork) || errors.Is(err, retrysafe.ErrInDoubt), "%s: the cause is seen through: %v", name, err)
	}
	_, ok := retrysafe.Retryable(&retrysafe.Error{Op: "x"})
	assert.True(t, !ok && (&retrysafe.Error{Op: "x"}).Error() != "", "an empty error does not panic")
}

// TestShutdownTellsWaiters: they get ErrClosed at once, and none of them takes over during the
// shutdown.
func TestShutdownTellsWaiters(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStore()
		p := retrysafe.Policy{Wait: time.Hour, OnDoubt: retrysafe.Reexecute, Lease: 10 * time.Second}
		crashed(t, s, p)
		gone, cancel := context.WithCancel(ctx)
		cancel()
		e, c, told := retrysafe.New(s, &retrysafe.Options{Policy: p}), new(counter), make(chan error, 1)
		go func() {
			_, err := retrysafe.Do(ctx, e, charge, c.work)
			told <- err
		}()
		synctest.Wait()
		begun := time.Now()
		assert.NoError(t, e.Shutdown(ctx), "shutdown")
		assert.Equal(t, time.Since(begun), 0, "how long it took")
		assert.ErrorIs(t, <-told, retrysafe.ErrClosed, "the waiter")
		c.started(t, 0)
		assert.NoError(t, e.Shutdown(gone), "an idle engine, whatever the context")
	})
}

// TestClaimThatComesBehindShutdown: a claim after Shutdown starts nothing.
func TestClaimThatComesBehindShutdown(t *testing.T) {
	bubble(t, func(t *testing.T) {
		slow := &slowAcquire{Store: newStore(), wait: 3 * time.Second}
		e, c, told := retrysafe.New(slow, nil), new(counter), make(chan error, 1)
		go func() {
			_, err := retrysafe.Do(ctx, e, charge, c.work)
			told <- err
		}()
		synctest.Wait()
		end, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		assert.True(t, e.Shutdown(end) != nil, "shutdown gives up")
		assert.ErrorIs(t, <-told, retrysafe.ErrClosed, "the call")
		c.started(t, 0)
		rec, err := slow.Lookup(ctx, storeapi.StoreKey{Namespace: "app", Layer: "fn", Key: charge})
		assert.NoError(t, err, "look-up")
		assert.Equal(t, rec.State, retrysafe.StateReleased, "the key was given back")
	})
}

// TestShutdownEndsTransactions: Shutdown ends the open transactions when it stops waiting.
func TestShutdownEndsTransactions(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e, told := retrysafe.New(newStore(), &retrysafe.Options{Sweep: -1}), make(chan error, 1)
		go func() {
			_, err := retrysafe.DoTx(ctx, e, noTx{}, charge, func(ctx context.Context, _ int) (int, error) {
				<-ctx.Done()
				return 0, context.Cause(ctx)
			})
			told <- err
		}()
		synctest.Wait()
		end, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		err := e.Shutdown(end)
		assert.Contains(t, fmt.Sprint(err), "1 calls", "shutdown")
		assert.ErrorIs(t, <-told, retrysafe.ErrClosed, "what the transaction is told")
	})
}

func TestLargeFailures(t *testing.T) {
	t.Parallel()
	e, c := engineOn(t, newStore(), retrysafe.Policy{MaxAnswer: 100}), new(counter)
	work := func(context.Context) (string, error) {
		return "", retrysafe.Permanent("declined", c.fail(errors.New(strings.Repeat("x", 1000))))
	}
	for i := range 2 {
		_, err := retrysafe.Do(ctx, e, charge, work)
		var f *retrysafe.Failure
		assert.Equal(t, errors.As(err, &f), i == 0, "the first caller has the failure: %d", i)
		assert.Equal(t, errors.Is(err, retrysafe.ErrFailedBefore), i == 1, "a repeat is told that it was refused: %d", i)
	}
	c.started(t, 1)
}

// TestSucceedIsNotForFailures: a refusal is not a success the second time.
func TestSucceedIsNotForFailures(t *testing.T) {
	t.Parallel()
	e := engineOn(t, newStore(), retrysafe.Policy{Duplicate: retrysafe.Succeed})
	for range 2 {
		_, err := retrysafe.Do(ctx, e, charge, func(context.Context) (string, error) { return "", retrysafe.Permanent("declined", errWork) })
		var f *retrysafe.Failure
		assert.True(t, errors.As(err, &f), "each caller is told of the refusal: %v", err)
	}
}

// TestRetentionWithoutRoom: a retention just short of Forever does not overflow.
func TestRetentionWithoutRoom(t *testing.T) {
	t.Parallel()
	e, c := engineOn(t, newStore(), retrysafe.Policy{Retention: retrysafe.Forever - 1}), new(counter)
	for range 2 {
		_, err := retrysafe.Do(ctx, e, charge, c.work)
		assert.NoError(t, err, "call")
	}
	c.started(t, 1)
}

func TestTraceOutcomes(t *testing.T) {
	t.Parallel()
	var outcomes []string
	o := &retrysafe.Options{Sweep: -1, Trace: &retrysafe.Trace{
		Call: func(ctx context.Context, _ retrysafe.CallInfo) (context.Context, func(retrysafe.CallDone)) {
			return ctx, func(d retrysafe.CallDone) { outcomes = append(outcomes, d.Outcome) }
		},
		Store: func(context.Context, retrysafe.StoreInfo) func(error) { return func(error) {} },
	}}
	e := engineWith(t, newStore(), o)
	run := func(id string, err error, p retrysafe.Policy) {
		k := retrysafe.Key{Operation: "x", ID: id}
		defer func() { _ = recover() }()
		_, _ = retrysafe.Do(ctx, e, k, func(context.Context) (string, error) {
			if err == errPanic { //nolint:errorlint // a marker of this test
				panic(err)
			}
			return "12345", err
		}, retrysafe.WithPolicy(p))
	}
	run("a", nil, retrysafe.Policy{})
	run("a", nil, retrysafe.Policy{})
	run("a", nil, retrysafe.Policy{Duplicate: retrysafe.Succeed})
	run("a", nil, retrysafe.Policy{Duplicate: retrysafe.Reject})
	run("b", nil, retrysafe.Policy{MaxAnswer: 2})
	run("b", nil, retrysafe.Policy{})
	run("c", retrysafe.Permanent("no", errWork), retrysafe.Policy{})
	run("c", nil, retrysafe.Policy{})
	run("d", retrysafe.NothingDone(errWork), retrysafe.Policy{})
	run("e", errPanic, retrysafe.Policy{})
	run("e", nil, retrysafe.Policy{})
	run("", nil, retrysafe.Policy{})
	_, _ = retrysafe.DoTx(ctx, e, noTx{}, charge, func(context.Context, int) (int, error) { return 1, nil })
	_, _ = retrysafe.DoTx(ctx, e, noTx{fail: errWork}, charge, func(context.Context, int) (int, error) { return 1, nil })
	assert.Equal(t, strings.Join(outcomes, " "),
		"executed replayed succeeded duplicate executed not-kept failed replayed released doubt in-doubt invalid executed unavailable", "outcomes")
}

var errPanic = errors.New("panic")

// TestNothingSecretIsPrinted: printing a value while debugging shows no secret.
func TestNothingSecretIsPrinted(t *testing.T) {
	t.Parallel()
	secret := retrysafe.Key{Tenant: "tenant-secret", Operation: "charge", ID: "id-secret"}
	o := retrysafe.Options{Secret: []byte("secret-of-options"), Sweep: -1}
	e := engineWith(t, newStore(), &o)
	a, _, err := e.Begin(ctx, secret)
	assert.NoError(t, err, "begin")
	assert.NoError(t, a.Complete(ctx, retrysafe.Answer{Codec: "raw", Body: []byte("answer-secret"), Kept: true}), "complete")
	rec := lookup(t, e, secret)
	for _, v := range []any{a, rec, &rec, rec.Answer, o, &o, rec.Key, rec.Key.Key} {
		shown := fmt.Sprintf("%v %+v %#v %s", v, v, v, v)
		assert.True(t, !strings.Contains(shown, "-secret") && !strings.Contains(shown, "secret-"), "%T shows %s", v, shown)
	}
	text, err := json.Marshal(rec.Key)
	assert.NoError(t, err, "json")
	assert.Contains(t, string(text), "id-secret", "encodings are for machines: they have the key")
}
