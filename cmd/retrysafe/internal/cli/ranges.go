package cli

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/retrysafe/retrysafe/idgen"
	"github.com/retrysafe/retrysafe/idgen/memranges"
	"github.com/retrysafe/retrysafe/idgen/redisranges"
	"github.com/retrysafe/retrysafe/idgen/sqlranges"
)

// rangeSource is a source of ranges that can also create tags.
type rangeSource interface {
	idgen.Ranges
	Create(ctx context.Context, tag string, first, step int64) (created bool, err error)
}

// rangeConns is small: taking a range is a short statement, and each tag runs one at a time.
const rangeConns = 4

// openRanges opens the source of ranges of a store. Call closeRanges at most once.
func openRanges(ctx context.Context, n storeName, log *slog.Logger, f *idsFlags) (r rangeSource, closeRanges func() error, err error) {
	switch {
	case n.inMemory():
		return memranges.New(), func() error { return nil }, nil
	case n.redis != nil:
		client, err := connectRedis(n.redis, false)
		if err != nil {
			return nil, nil, err
		}
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		ranges, err := redisranges.New(ctx, client, &redisranges.Options{Replicas: f.replicas, Unsafe: f.acceptLoss, Logger: log})
		if err != nil {
			_ = client.Close()
			return nil, nil, fmt.Errorf("%w (here: --replicas, --unsafe)", err)
		}
		return ranges, client.Close, nil
	}
	db, dialect, err := n.openDatabase(toServe, rangeConns)
	if err != nil {
		return nil, nil, fmt.Errorf("store %s: %w", n, err)
	}
	ranges, err := sqlranges.New(db, dialect, &sqlranges.Options{Table: f.table, Logger: log})
	if err == nil {
		err = ranges.Migrate(ctx)
	}
	if err != nil {
		_ = db.Close()
		return nil, nil, fmt.Errorf("store %s: %w", n, err)
	}
	return ranges, db.Close, nil
}
