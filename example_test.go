package retrysafe_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/storetest"
)

type Order struct {
	Item  string
	Cents int
}

type Receipt struct{ ID string }

// pay stands for a call of a payment provider.
func pay(context.Context, Order) (Receipt, error) { return Receipt{ID: "r-1"}, nil }

// A click, a retry, a redelivered message: the card is charged once, however often the request
// arrives.
func ExampleDo() {
	ctx := context.Background()
	engine := retrysafe.New(memstore.New(nil), &retrysafe.Options{Secret: []byte("from your configuration")})
	defer engine.Shutdown(ctx)

	order := Order{Item: "tea", Cents: 4200}
	for range 3 {
		res, err := retrysafe.Do(ctx, engine, retrysafe.Key{Tenant: "ann", Operation: "charge", ID: "8e03978e"},
			func(ctx context.Context) (Receipt, error) { return pay(ctx, order) },
			retrysafe.WithPayload(order))
		fmt.Println(res.Value.ID, res.Replayed, err)
	}
	// Output:
	// r-1 false <nil>
	// r-1 true <nil>
	// r-1 true <nil>
}

// A program checks its secret before it serves: with another secret than before, a retry of an
// earlier call could run again.
func ExampleEngine_CheckSecret() {
	ctx := context.Background()
	store := memstore.New(nil) // stands for one that all processes share
	for _, secret := range []string{"from your configuration", "a copy with a typing error"} {
		engine := retrysafe.New(store, &retrysafe.Options{Namespace: "shop", Secret: []byte(secret)})
		defer engine.Shutdown(ctx)

		err := engine.CheckSecret(ctx)
		fmt.Println(errors.Is(err, retrysafe.ErrSecretChanged))
	}
	// Output:
	// false
	// true
}

// An operation is declared once: its name, its policy and its work. The input is the fingerprint,
// so a caller cannot forget to set one.
func ExampleNewOperation() {
	ctx := context.Background()
	engine := retrysafe.New(memstore.New(nil), &retrysafe.Options{Secret: []byte("from your configuration")})
	defer engine.Shutdown(ctx)

	charge := retrysafe.NewOperation(engine, "charge", pay, &retrysafe.Policy{Lease: 20 * time.Second, Retention: 30 * 24 * time.Hour})

	res, err := charge.Do(ctx, "ann", "8e03978e", Order{Item: "tea", Cents: 4200})
	fmt.Println(res.Value.ID, err)
	_, err = charge.Do(ctx, "ann", "8e03978e", Order{Item: "tea", Cents: 99})
	fmt.Println(errors.Is(err, retrysafe.ErrFingerprintMismatch))
	// Output:
	// r-1 <nil>
	// true
}

// A mark says what an error of the work means. Without one the work may have taken effect, and
// under Refuse it does not run again.
func ExampleNothingDone() {
	ctx := context.Background()
	engine := retrysafe.New(memstore.New(nil), &retrysafe.Options{Secret: []byte("from your configuration")})
	defer engine.Shutdown(ctx)

	call := func(id string, err error) error {
		_, err = retrysafe.Run(ctx, engine, retrysafe.Key{Operation: "charge", ID: id}, func(context.Context) error { return err })
		return err
	}
	fmt.Println(call("a", retrysafe.NothingDone(errors.New("connection refused"))))
	fmt.Println(call("a", nil))
	_ = call("b", retrysafe.Permanent("declined", errors.New("card declined")))
	var failure *retrysafe.Failure
	fmt.Println(errors.As(call("b", nil), &failure), failure.Code)
	_ = call("c", errors.New("time-out"))
	fmt.Println(errors.Is(call("c", nil), retrysafe.ErrInDoubt))
	// Output:
	// connection refused
	// <nil>
	// true declined
	// true
}

// Begin is for code that finishes the attempt itself.
func ExampleEngine_Begin() {
	ctx := context.Background()
	engine := retrysafe.New(memstore.New(nil), &retrysafe.Options{Secret: []byte("from your configuration")})
	defer engine.Shutdown(ctx)

	key := retrysafe.Key{Tenant: "ann", Operation: "report", ID: "2026-11"}
	for range 2 {
		attempt, record, err := engine.Begin(ctx, key)
		switch {
		case err != nil:
			fmt.Println(err)
		case record != nil:
			fmt.Printf("again: %s\n", record.Answer.Body)
		default:
			body := []byte("report of November")
			if err := attempt.Complete(ctx, retrysafe.Answer{Codec: "raw", Body: body, Kept: true}); err != nil {
				fmt.Println(err)
			}
			fmt.Printf("first: %s\n", body)
		}
	}
	// Output:
	// first: report of November
	// again: report of November
}

// An operator, or a program, resolves a key in doubt after finding out its outcome.
func ExampleEngine_Resolve() {
	ctx := context.Background()
	engine := retrysafe.New(memstore.New(nil), &retrysafe.Options{Secret: []byte("from your configuration")})
	defer engine.Shutdown(ctx)

	key := retrysafe.Key{Tenant: "ann", Operation: "charge", ID: "8e03978e"}
	charge := func() error {
		_, err := retrysafe.Run(ctx, engine, key, func(context.Context) error { return errors.New("time-out") })
		return err
	}
	_ = charge()

	record, _ := engine.Lookup(ctx, key)
	fmt.Println(record.State, record.InDoubt(), record.LastError)
	err := engine.Resolve(ctx, key, retrysafe.Resolution{Fence: record.Fence, Outcome: retrysafe.NotDone, By: "ops: the provider has no such charge"})
	fmt.Println(err)
	record, _ = engine.Lookup(ctx, key)
	fmt.Println(record.State)
	// Output:
	// in-progress true time-out
	// <nil>
	// released
}

func ExampleRetryable() {
	err := &retrysafe.Error{Op: "charge", Err: retrysafe.ErrInProgress, RetryAfter: 2 * time.Second}
	after, ok := retrysafe.Retryable(err)
	fmt.Println(after, ok)
	_, ok = retrysafe.Retryable(&retrysafe.Error{Op: "charge", Err: retrysafe.ErrInDoubt})
	fmt.Println(ok)
	// Output:
	// 2s true
	// false
}

// Work that is about to do what cannot be undone makes sure of its lease first: the process may
// have been held up.
func ExampleAttempt_Extend() {
	e := retrysafe.New(memstore.New(nil), &retrysafe.Options{Secret: []byte("16 random bytes!")})
	defer e.Shutdown(context.Background())
	a, _, err := e.Begin(context.Background(), retrysafe.Key{Operation: "payout", ID: "7"})
	if err != nil {
		fmt.Println(err)
		return
	}
	if a.LeaseLeft() < a.Policy().Lease/2 {
		if err := a.Extend(a.Context()); err != nil {
			_ = a.Release(a.Context(), err) // nothing was done
			return
		}
	}
	fmt.Println("the money is sent")
	_ = a.Complete(a.Context(), retrysafe.Answer{Kept: true})
	// Output: the money is sent
}

// A payment whose answer was lost. Reconcile asks the provider for the outcome, by the key that was
// sent along, and the customer gets the receipt of the one charge.
func ExampleEngine_ReconcileAll() {
	ctx := context.Background()
	charges := map[string]string{} // at the provider, by the key of the request
	pay := func(ctx context.Context, order string) (string, error) {
		a, _ := retrysafe.AttemptFrom(ctx)
		charges[a.Key().ID] = "receipt of " + order
		return "", errors.New("the connection broke before the answer came")
	}
	clock := storetest.NewClock()
	store := memstore.New(&memstore.Options{Now: clock.Now})
	engine := retrysafe.New(store, &retrysafe.Options{Logger: slog.New(slog.DiscardHandler)})
	defer engine.Shutdown(ctx)
	charge := retrysafe.NewOperation(engine, "charge", pay, &retrysafe.Policy{
		Lease: time.Minute,
		Reconcile: func(_ context.Context, r retrysafe.Record) (retrysafe.Resolution, error) {
			receipt, ok := charges[r.Key.ID]
			if !ok {
				return retrysafe.Resolution{Outcome: retrysafe.NotDone}, nil
			}
			answer, err := retrysafe.JSON.Encode(receipt)
			return retrysafe.Resolution{Outcome: retrysafe.Done, Answer: retrysafe.Answer{Codec: "json", Body: answer, Kept: true}}, err
		},
	})
	_, err := charge.Do(ctx, "ann", "8e03978e", "tea")
	fmt.Println("in doubt:", errors.Is(err, retrysafe.ErrInDoubt))
	after, _ := retrysafe.Retryable(func() error { _, err := charge.Do(ctx, "ann", "8e03978e", "tea"); return err }())
	clock.Advance(after) // in a real program this time passes by itself
	// A program would do this every few minutes. A duplicate of the call does it too.
	settled, err := charge.ReconcileAll(ctx)
	fmt.Println("settled:", settled, err)
	res, err := charge.Do(ctx, "ann", "8e03978e", "tea")
	fmt.Println(res.Value, err, "charges:", len(charges))
	// Output:
	// in doubt: true
	// settled: 1 <nil>
	// receipt of tea <nil> charges: 1
}
