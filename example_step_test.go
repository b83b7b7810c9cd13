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

// A process dies after the second of three steps. The retry continues with the third, and the
// customer pays once.
func ExampleStep() {
	ctx := context.Background()
	clock := storetest.NewClock()
	store := memstore.New(&memstore.Options{Now: clock.Now})
	policy := retrysafe.Policy{Lease: time.Minute, OnDoubt: retrysafe.Reexecute}
	process := func() *retrysafe.Engine {
		return retrysafe.New(store, &retrysafe.Options{Policy: policy, Logger: slog.New(slog.DiscardHandler)})
	}
	order := func(e *retrysafe.Engine, dies func()) (retrysafe.Result[string], error) {
		step := func(ctx context.Context, name string) error {
			_, err := retrysafe.Step(ctx, name, func(context.Context) (string, error) {
				fmt.Println(name)
				return "done", nil
			})
			return err
		}
		return retrysafe.Do(ctx, e, retrysafe.Key{Operation: "order", ID: "8e03978e"}, func(ctx context.Context) (string, error) {
			if err := errors.Join(step(ctx, "reserve"), step(ctx, "charge")); err != nil {
				return "", err
			}
			if dies(); ctx.Err() != nil {
				return "", ctx.Err()
			}
			return "on its way", step(ctx, "ship")
		})
	}
	first := process()
	_, err := order(first, func() {
		gone, end := context.WithCancel(ctx)
		end()
		_ = first.Shutdown(gone) // stands for a crash
	})
	fmt.Println("the first:", err != nil)

	clock.Advance(time.Hour) // its lease has expired
	second := process()
	defer second.Shutdown(ctx)
	res, err := order(second, func() {})
	fmt.Println("the retry:", res.Value, err)
	// Output:
	// reserve
	// charge
	// the first: true
	// ship
	// the retry: on its way <nil>
}

// A payment, followed by a mail. If the mail fails, the payment is still made only once.
func ExampleAtMostOnce() {
	engine := retrysafe.New(memstore.New(nil), &retrysafe.Options{Logger: slog.New(slog.DiscardHandler)})
	defer engine.Shutdown(context.Background())
	order := Order{}
	mail := func(context.Context) (string, error) {
		return "", retrysafe.NothingDone(errors.New("no line to the mail server"))
	}
	call := func() error {
		_, err := retrysafe.Run(context.Background(), engine, retrysafe.Key{Operation: "checkout", ID: "7"}, func(ctx context.Context) error {
			receipt, err := retrysafe.Step(ctx, "charge", func(ctx context.Context) (Receipt, error) { return pay(ctx, order) })
			if err == nil {
				_, err = retrysafe.Step(ctx, "mail "+receipt.ID, mail, retrysafe.AtMostOnce())
			}
			return err
		})
		return err
	}
	fmt.Println(call())
	mail = func(context.Context) (string, error) { return "sent", nil }
	fmt.Println(call())
	// Output:
	// no line to the mail server
	// <nil>
}

// A worker in any process finishes calls whose process died and whose callers do not retry.
func ExampleWorker() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	clock := storetest.NewClock()
	store := memstore.New(&memstore.Options{Now: clock.Now})
	policy := retrysafe.Policy{Lease: time.Minute, OnDoubt: retrysafe.Reexecute}
	down := true
	engine := retrysafe.New(store, &retrysafe.Options{Policy: policy, Logger: slog.New(slog.DiscardHandler)})
	defer engine.Shutdown(context.Background())
	invoice := retrysafe.NewOperation(engine, "invoice", func(ctx context.Context, order string) (string, error) {
		number, err := retrysafe.Step(ctx, "number", func(context.Context) (int, error) { return 7, nil })
		if err == nil && down {
			err = errors.New("the printer is off")
		}
		return fmt.Sprintf("invoice %d for %s", number, order), err
	}, nil).Resumable()
	_, err := invoice.Do(ctx, "ann", "8e03978e", "tea")
	fmt.Println(err)

	down = false
	w := retrysafe.NewWorker(&retrysafe.WorkerOptions{MinWait: time.Millisecond}, invoice)
	clock.Advance(time.Hour)
	done, err := w.Pass(ctx) // a program calls w.Run(ctx) once
	fmt.Println("finished:", done.Finished, err)
	res, err := invoice.Do(ctx, "ann", "8e03978e", "tea")
	fmt.Println(res.Value, res.Replayed, err)
	// Output:
	// the printer is off
	// finished: 1 <nil>
	// invoice 7 for tea true <nil>
}
