package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/adapters/rueidisclient"
	"github.com/retrysafe/retrysafe/redisclient"
	"github.com/retrysafe/retrysafe/stores/redisstore"
	"github.com/retrysafe/retrysafe/stores/sqlstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// parts are the components of the program.
type parts struct {
	shop    *shop
	records *retrysafe.Engine
	broker  *broker
	closers []func()
}

// closeAll closes what was opened, the last first.
func (p *parts) closeAll() {
	for i := len(p.closers) - 1; i >= 0; i-- {
		p.closers[i]()
	}
}

func openParts(ctx context.Context, c config) (p *parts, err error) {
	p = new(parts)
	defer func() {
		if err != nil {
			p.closeAll()
			p = nil
		}
	}()
	if c.dir == "" {
		if c.dir, err = os.MkdirTemp("", "orders"); err != nil {
			return p, err
		}
		p.closers = append(p.closers, func() { _ = os.RemoveAll(c.dir) })
	}
	db, d, err := p.openDatabase(c.postgres, filepath.Join(c.dir, "shop.db"))
	if err != nil {
		return p, err
	}
	if p.shop, err = openShop(ctx, db, d); err != nil {
		return p, err
	}
	records, err := p.openRecordStore(ctx, c)
	if err != nil {
		return p, err
	}
	p.records = retrysafe.New(records, &retrysafe.Options{Namespace: "shop", Secret: secret})
	p.closers = append(p.closers, func() {
		_ = errors.Join(p.records.Shutdown(context.Background()), p.shop.engine.Shutdown(context.Background()))
	})
	if p.broker = newMemoryBroker(); c.rabbitmq != "" {
		if p.broker, err = openRabbitMQ(ctx, c.rabbitmq); err != nil {
			return p, err
		}
	}
	p.closers = append(p.closers, p.broker.close)
	return p, nil
}

// openDatabase opens PostgreSQL, or a file of SQLite.
func (p *parts) openDatabase(postgres, file string) (*sql.DB, sqlstore.Dialect, error) {
	driver, dsn, d := "sqlite", file+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=busy_timeout(10000)", sqlstore.SQLite
	if postgres != "" {
		driver, dsn, d = "pgx", postgres, sqlstore.PostgreSQL
	}
	db, err := sql.Open(driver, dsn)
	if err != nil {
		return nil, 0, fmt.Errorf("open the database: %w", err)
	}
	p.closers = append(p.closers, func() { _ = db.Close() })
	return db, d, nil
}

// openRecordStore opens the store of the records that are not in a transaction. It is in Redis or
// in a separate file: SQLite has one writer at a time, and an open transaction of the shop would
// block it.
func (p *parts) openRecordStore(ctx context.Context, c config) (storeapi.Store, error) {
	if c.redis == "" {
		db, d, err := p.openDatabase("", filepath.Join(c.dir, "records.db"))
		if err != nil {
			return nil, err
		}
		s, err := sqlstore.New(db, d, nil)
		if err != nil {
			return nil, err
		}
		return s, s.Migrate(ctx)
	}
	address, err := redisclient.ParseURL(c.redis)
	if err != nil {
		return nil, err
	}
	client, err := rueidisclient.Open(address)
	if err != nil {
		return nil, err
	}
	p.closers = append(p.closers, func() { _ = client.Close() })
	// A Redis that may evict records is good enough for an example; see docs/stores.md for
	// production.
	return redisstore.New(ctx, client, &redisstore.Options{AllowEviction: true})
}
