package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/retrysafe/retrysafe/lock"
	"github.com/retrysafe/retrysafe/lock/redislock"
	"github.com/retrysafe/retrysafe/lock/sqllock"
)

// openLocks opens the locks that a URL names, as package lock keeps them by default. An error does
// not quote the address.
func openLocks(ctx context.Context, name string) (lock.Lister, func(), error) {
	n, err := parseStore(name)
	if err == nil && n.inMemory() {
		err = errors.New("--locks names a server or a file: redis://HOST, postgres://HOST/DATABASE, mysql://HOST/DATABASE or sqlite:PATH")
	}
	if err != nil {
		return nil, nil, &usageError{err}
	}
	if n.redis != nil {
		client, err := connectRedis(n.redis, false)
		if err != nil {
			return nil, nil, err
		}
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		// it only looks
		locks, err := redislock.New(ctx, client, &redislock.Options{AllowEviction: true, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			_ = client.Close()
			return nil, nil, fmt.Errorf("locks in %s: %w", n, err)
		}
		return locks, func() { _ = client.Close() }, nil
	}
	db, dialect, err := n.openDatabase(toInspect, 4)
	if err != nil {
		return nil, nil, fmt.Errorf("locks in %s: %w", n, err)
	}
	locks, err := sqllock.NewTable(db, dialect, nil)
	if err == nil {
		_, err = locks.List(ctx, lock.ListRequest{Limit: 1})
	}
	if err != nil {
		_ = db.Close()
		return nil, nil, fmt.Errorf("locks in %s: %w", n, err)
	}
	return locks, func() { _ = db.Close() }, nil
}
