package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/adapters/pgxidem"
	"github.com/retrysafe/retrysafe/stores/sqlstore"
)

const tables = `CREATE TABLE IF NOT EXISTS accounts (owner TEXT PRIMARY KEY, balance BIGINT NOT NULL CHECK (balance >= 0));
CREATE TABLE IF NOT EXISTS payments (id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, payer TEXT NOT NULL, payee TEXT NOT NULL, cents BIGINT NOT NULL);
INSERT INTO accounts VALUES ('ann', 10000), ('bob', 0) ON CONFLICT DO NOTHING`

func runBank(ctx context.Context, listen, url string, pause time.Duration) error {
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	if _, err := pool.Exec(ctx, tables); err != nil {
		return fmt.Errorf("create the tables: %w", err)
	}
	db := stdlib.OpenDBFromPool(pool)
	defer db.Close()
	store, err := sqlstore.New(db, sqlstore.PostgreSQL, nil)
	if err != nil {
		return err
	}
	if err := store.Migrate(ctx); err != nil {
		return err
	}
	engine := retrysafe.New(store, &retrysafe.Options{Namespace: "bank", Policy: retrysafe.Policy{Wait: 5 * time.Second}})
	b := &bank{pool: pool, engine: engine, records: pgxidem.New(store, pool), pause: pause}
	err = listenAndServe(ctx, listen, b.newHandler())
	return errors.Join(err, engine.Shutdown(context.WithoutCancel(ctx)))
}

type bank struct {
	pool    *pgxpool.Pool
	engine  *retrysafe.Engine
	records *pgxidem.DB
	pause   time.Duration
}

// payment is a payment that a client asks for. The answer has its id too.
type payment struct {
	ID    int64  `json:"id,omitempty"`
	Payer string `json:"payer"`
	Payee string `json:"payee"`
	Cents int64  `json:"cents"`
}

var (
	errBalance = errors.New("the balance of the payer is too low")
	errPayee   = errors.New("there is no such payee")
)

// makePayment makes the payment of a key once. Both accounts, the payment and the record of the key
// commit together or not at all.
func (b *bank) makePayment(ctx context.Context, key string, p payment) (retrysafe.Result[payment], error) {
	k := retrysafe.Key{Tenant: p.Payer, Operation: "pay", ID: key}
	return retrysafe.DoTx(ctx, b.engine, b.records, k, func(ctx context.Context, tx pgx.Tx) (payment, error) {
		if err := b.moveMoney(ctx, tx, &p); err != nil {
			return p, err
		}
		select { // to be killed here, before the commit
		case <-time.After(b.pause):
			return p, nil
		case <-ctx.Done():
			return p, ctx.Err()
		}
	}, retrysafe.WithPayload(p), retrysafe.RetryWork(3))
}

func (b *bank) moveMoney(ctx context.Context, tx pgx.Tx, p *payment) error {
	taken, err := tx.Exec(ctx, "UPDATE accounts SET balance = balance - $1 WHERE owner = $2 AND balance >= $1", p.Cents, p.Payer)
	if err != nil {
		return err
	}
	if taken.RowsAffected() == 0 {
		return retrysafe.Permanent("balance-too-low", errBalance) // a retry gets the same answer
	}
	given, err := tx.Exec(ctx, "UPDATE accounts SET balance = balance + $1 WHERE owner = $2", p.Cents, p.Payee)
	if err != nil {
		return err
	}
	if given.RowsAffected() == 0 {
		return retrysafe.Permanent("no-such-payee", errPayee)
	}
	return tx.QueryRow(ctx, "INSERT INTO payments (payer, payee, cents) VALUES ($1, $2, $3) RETURNING id", p.Payer, p.Payee, p.Cents).Scan(&p.ID)
}
