package cli

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"time"

	"github.com/retrysafe/retrysafe/adapters/rueidisclient"
	"github.com/retrysafe/retrysafe/idgen"
	"github.com/retrysafe/retrysafe/idgen/memranges"
	"github.com/retrysafe/retrysafe/idgen/redisranges"
	"github.com/retrysafe/retrysafe/idgen/sqlranges"
)

// tagged is a source of ranges that can also create tags.
type tagged interface {
	idgen.Ranges
	Create(ctx context.Context, tag string, first, step int64) (created bool, err error)
}

// rangeConns is small: taking a range is a short statement, and each tag runs one at a time.
const rangeConns = 4

// openRanges opens the source of ranges of a store. Call closeRanges at most once.
func openRanges(ctx context.Context, n storeName, log *slog.Logger, f *idsFlags) (r tagged, closeRanges func() error, err error) {
	switch {
	case n.memory():
		return memranges.New(), func() error { return nil }, nil
	case n.redis != nil:
		client, err := rueidisclient.Open(n.redis)
		if err != nil {
			return nil, nil, err
		}
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		ranges, err := redisranges.New(ctx, client, &redisranges.Options{Replicas: f.replicas, Unsafe: f.unsafe, Logger: log})
		if err != nil {
			client.Close()
			return nil, nil, fmt.Errorf("%w (here: --replicas, --unsafe)", err)
		}
		return ranges, func() error { client.Close(); return nil }, nil
	}
	driver, dsn, dialect := "sqlite", sqliteDSN(n.path, toServe), sqlranges.SQLite
	switch {
	case n.postgres != nil:
		driver, dsn, dialect = "pgx", n.postgres.url, sqlranges.PostgreSQL
	case n.mysql != nil:
		driver, dsn, dialect = "mysql", n.mysql.dsn, sqlranges.MySQL
	}
	db, err := sql.Open(driver, dsn)
	if err != nil {
		// The cause may quote the address.
		return nil, nil, fmt.Errorf("store %s: the address cannot be used; look at its parameters", n)
	}
	db.SetMaxOpenConns(rangeConns)
	db.SetMaxIdleConns(rangeConns)
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
