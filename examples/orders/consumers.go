package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/mqidem"
)

// tries is how often a message is tried before it becomes a dead letter.
const tries = 3

// consumers process the messages of both queues.
type consumers struct {
	shop    *shop
	records *retrysafe.Engine
	// The outcomes of deliveries.
	done, repeats, again, dead atomic.Int64
}

func (c *consumers) newOptions() *mqidem.Options {
	return &mqidem.Options{
		MaxAttempts: tries, Backoff: mqidem.Fixed(100 * time.Millisecond), Batch: 50, Linger: 20 * time.Millisecond,
		Logger: slog.New(slog.DiscardHandler), OnOutcome: c.countOutcome,
	}
}

func (c *consumers) countOutcome(_ context.Context, o mqidem.Outcome) {
	switch o.What {
	case mqidem.OutcomeDone:
		c.done.Add(1)
	case mqidem.OutcomeDuplicate:
		c.repeats.Add(1)
	case mqidem.OutcomeAgain:
		c.again.Add(1)
	case mqidem.OutcomeDead:
		c.dead.Add(1)
	}
}

// consumeStock takes what was ordered out of the stock, exactly once: the record is in the same
// transaction.
func (c *consumers) consumeStock(ctx context.Context, s mqidem.Source) error {
	h := mqidem.OnceTx(c.shop.engine, c.shop.store, "stock", func(ctx context.Context, tx *sql.Tx, m *mqidem.Message) error {
		var o order
		if err := json.Unmarshal(m.Body, &o); err != nil {
			return mqidem.Poison(err)
		}
		return c.shop.takePiece(ctx, tx, o.SKU)
	})
	return mqidem.Consume(ctx, s, h, c.newOptions())
}

// consumePoints adds bonus points, in batches. The records are in another store: if a consumer dies
// between the effect and its record, the effect runs again, which does no harm here.
func (c *consumers) consumePoints(ctx context.Context, s mqidem.Source) error {
	h := mqidem.OnceBatch(c.records, "points", func(ctx context.Context, ms []*mqidem.Message) []error {
		errs := make([]error, len(ms))
		for i, m := range ms {
			var o order
			if err := json.Unmarshal(m.Body, &o); err != nil {
				errs[i] = mqidem.Poison(err)
				continue
			}
			errs[i] = c.shop.addPoints(ctx, o)
		}
		return errs
	})
	return mqidem.ConsumeBatch(ctx, s, h, c.newOptions())
}
