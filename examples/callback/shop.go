package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"net/http"
	"time"

	_ "modernc.org/sqlite"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem/callback"
	"github.com/retrysafe/retrysafe/stores/sqlstore"
)

const table = `CREATE TABLE IF NOT EXISTS payments (order_no TEXT PRIMARY KEY, provider TEXT NOT NULL, notifications INTEGER NOT NULL)`

type shop struct {
	db     *sql.DB
	store  *sqlstore.Store
	engine *retrysafe.Engine
	pause  time.Duration
}

func runShop(ctx context.Context, listen, folder string, pause time.Duration) error {
	keys, err := readKeys(folder)
	if err != nil {
		return err
	}
	db, err := sql.Open("sqlite", "file:shop.db?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=busy_timeout(10000)")
	if err != nil {
		return err
	}
	defer db.Close()
	store, err := sqlstore.New(db, sqlstore.SQLite, nil)
	if err != nil {
		return err
	}
	if err := store.Migrate(ctx); err != nil {
		return err
	}
	if _, err := db.ExecContext(ctx, table); err != nil {
		return fmt.Errorf("create the table of payments: %w", err)
	}
	s := &shop{db: db, store: store, engine: retrysafe.New(store, &retrysafe.Options{Namespace: "shop"}), pause: pause}
	mux := http.NewServeMux()
	s.addProviders(mux, keys)
	mux.HandleFunc("GET /payments/{order}", s.getPayment)
	err = listenAndServe(ctx, listen, mux)
	return errors.Join(err, s.engine.Shutdown(context.WithoutCancel(ctx)))
}

// event is what a notification says.
type event struct {
	order string
	paid  bool // false: it is about something else, and needs an answer all the same
}

// handleNotification serves the notifications of a provider. A notification that was counted and
// not answered, since the process died, is counted no second time: the key of the transaction is
// that of the notification.
func (s *shop) handleNotification(o callback.Options, read func(*http.Request) (event, error)) http.Handler {
	o.Policy = retrysafe.Policy{OnDoubt: retrysafe.Reexecute, Lease: 3 * time.Second}
	o.OnRefused = func(_ *http.Request, err error) { log.Printf("%s: a notification was refused: %v", o.Provider, err) }
	return callback.New(s.engine, &o).Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e, err := read(r)
		if err != nil {
			log.Printf("%s: a notification cannot be read: %v", o.Provider, err)
			http.Error(w, "the notification cannot be read", http.StatusBadRequest)
			return
		}
		if e.paid {
			if err := s.recordPayment(r.Context(), o.Provider, e.order); err != nil {
				log.Printf("%s: a payment was not written, and the provider sends it again: %v", o.Provider, err)
				http.Error(w, "send it again", http.StatusInternalServerError)
				return
			}
		}
		select { // to be killed here, with the payment written and no answer
		case <-time.After(s.pause):
		case <-r.Context().Done():
		}
		_, _ = w.Write(o.Succeed.Body) // the answer is stored even if the provider has gone
	}))
}

// recordPayment writes that an order is paid. A shop also compares the amount with that of the
// order.
func (s *shop) recordPayment(ctx context.Context, provider, order string) error {
	attempt, ok := retrysafe.AttemptFrom(ctx)
	if !ok {
		return errors.New("the handler is not guarded")
	}
	_, err := retrysafe.DoTx(ctx, s.engine, s.store, attempt.Key(), func(ctx context.Context, tx *sql.Tx) (struct{}, error) {
		_, err := tx.ExecContext(ctx, `INSERT INTO payments (order_no, provider, notifications) VALUES (?, ?, 1)
			ON CONFLICT (order_no) DO UPDATE SET notifications = notifications + 1`, order, provider)
		return struct{}{}, err
	}, retrysafe.WithPayload(order))
	return err
}

func (s *shop) getPayment(w http.ResponseWriter, r *http.Request) {
	var provider string
	var n int
	err := s.db.QueryRowContext(r.Context(), "SELECT provider, notifications FROM payments WHERE order_no = ?", r.PathValue("order")).Scan(&provider, &n)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		fmt.Fprintln(w, "not paid")
	case err != nil:
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	default:
		fmt.Fprintf(w, "paid with %s, notifications: %d\n", provider, n)
	}
}
