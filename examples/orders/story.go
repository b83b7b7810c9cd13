package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http/httptest"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe/mqidem"
	"github.com/retrysafe/retrysafe/outbox"
)

// Every twentieth order is for an article that is out of stock.
const (
	inStock      = "tea"
	outOfStock   = "cake"
	missingEvery = 20
)

// runStory runs the whole story and reports it on out. It returns an error if something did not
// happen, or happened more than once.
func runStory(ctx context.Context, c config, out io.Writer) (err error) {
	p, err := openParts(ctx, c)
	if err != nil {
		return err
	}
	defer p.closeAll()
	bad := (c.orders + missingEvery - 1) / missingEvery
	if err := errors.Join(p.shop.setStock(ctx, inStock, c.orders), p.shop.setStock(ctx, outOfStock, 0)); err != nil {
		return err
	}
	consumers := &consumers{shop: p.shop, records: p.records}
	stop, err := p.startConsumers(ctx, consumers)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()

	server := httptest.NewServer(newService(p.shop, p.records))
	defer server.Close()
	sent, err := sendAll(ctx, server.URL, c.orders)
	if err != nil {
		return err
	}
	placed, err := p.shop.queryNumber(ctx, "SELECT count(*) FROM orders")
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%d orders, sent %d times: %d were placed\n", c.orders, sent, placed)

	left := func(sku string) (int, error) {
		return p.shop.queryNumber(ctx, "SELECT n FROM stock WHERE sku = ?", sku)
	}
	rewarded := func() (int, error) { return p.shop.queryNumber(ctx, "SELECT count(*) FROM points") }
	err = errors.Join(
		awaitCount(ctx, "pieces left in stock", bad, func() (int, error) { return left(inStock) }),
		awaitCount(ctx, "orders with points", c.orders, rewarded),
		awaitCount(ctx, "messages that are dead", bad, func() (int, error) { return int(consumers.dead.Load()), nil }),
	)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "stock: %d pieces taken, %d messages out of stock are dead letters after %d tries each\n", c.orders-bad, bad, tries)
	fmt.Fprintf(out, "points: %d orders rewarded\n", c.orders)

	if err := p.shop.setStock(ctx, outOfStock, bad); err != nil {
		return err
	}
	did, err := p.redriveDead(ctx)
	if err != nil {
		return err
	}
	if err := awaitCount(ctx, "pieces of the article that came late", 0, func() (int, error) { return left(outOfStock) }); err != nil {
		return err
	}
	fmt.Fprintf(out, "redrive: %d messages put back, %d pieces taken\n", did.Sent, bad)
	fmt.Fprintf(out, "deliveries: %d done, %d repeats acked, %d to be tried again, %d dead letters\n",
		consumers.done.Load(), consumers.repeats.Load(), consumers.again.Load(), consumers.dead.Load())
	if placed != c.orders || did.Sent != bad {
		return errors.New("something did not happen once; see above")
	}
	fmt.Fprintln(out, "everything happened once")
	return nil
}

// startConsumers runs relay and consumers until stop is called.
func (p *parts) startConsumers(ctx context.Context, c *consumers) (stop func() error, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer func() {
		if err != nil {
			cancel()
		}
	}()
	relay, err := outbox.NewRelay(p.shop.box, repeatingPublisher{p.broker.publisher}, &outbox.RelayOptions{Poll: 50 * time.Millisecond})
	if err != nil {
		return nil, err
	}
	stock, err := p.broker.open(ctx, stockQueue)
	if err != nil {
		return nil, err
	}
	points, err := p.broker.open(ctx, pointsQueue)
	if err != nil {
		return nil, errors.Join(err, stock.Close())
	}
	var all sync.WaitGroup
	errs := make([]error, 3)
	for i, run := range []func() error{
		func() error { return relay.Run(ctx) },
		func() error { return errors.Join(c.consumeStock(ctx, stock), stock.Close()) },
		func() error { return errors.Join(c.consumePoints(ctx, points), points.Close()) },
	} {
		all.Go(func() { errs[i] = run() })
	}
	return func() error {
		cancel()
		all.Wait()
		return errors.Join(errs...)
	}, nil
}

// redriveDead redrives the messages that used up their tries. A service would use Redriver.Run, or
// "retrysafe dlq run".
func (p *parts) redriveDead(ctx context.Context) (mqidem.Redriven, error) {
	deadLetters, done, err := p.broker.deadLetters(ctx, stockQueue)
	if err != nil {
		return mqidem.Redriven{}, err
	}
	defer done()
	r, err := mqidem.NewRedriver(p.shop.engine, deadLetters, &mqidem.RedriverOptions{After: -1, Limit: 1 << 20, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return mqidem.Redriven{}, err
	}
	var all mqidem.Redriven
	for { // a record may be about to finish
		did, err := r.Once(ctx)
		all.Sent += did.Sent
		if err != nil || did.Seen == did.Sent+did.Gone {
			return all, err
		}
		if err := sleepFor(ctx, 50*time.Millisecond); err != nil {
			return all, err
		}
	}
}

// awaitCount waits until get returns want. A number above want does not go down again, so that is
// an error at once.
func awaitCount(ctx context.Context, what string, want int, get func() (int, error)) error {
	for {
		n, err := get()
		if err != nil || n == want {
			return err
		}
		if sleepFor(ctx, 20*time.Millisecond) != nil {
			return fmt.Errorf("%s: %d, and it should be %d: %w", what, n, want, context.Cause(ctx))
		}
	}
}

func sleepFor(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
