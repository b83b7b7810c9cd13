package demo

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/sqlstore"
)

// shop is the service that the demonstration protects. It takes orders and payments, and knows
// nothing about retries. Only /checkout-tx uses the library itself.
type shop struct {
	db     *sql.DB
	store  *sqlstore.Store
	engine *retrysafe.Engine
	// writes lets one insert after the other into the file. SQLite lets writers try until their
	// time has passed, and one of many on a slow disk would fail.
	writes sync.Mutex
}

const tables = `
CREATE TABLE IF NOT EXISTS orders   (id INTEGER PRIMARY KEY, scene TEXT NOT NULL, customer TEXT NOT NULL, item TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS payments (id INTEGER PRIMARY KEY, scene TEXT NOT NULL, customer TEXT NOT NULL, cents INTEGER NOT NULL);`

// ShopCommand returns the command that runs the shop as its own process, so that it can be killed.
func ShopCommand() *cobra.Command {
	var listen, db string
	c := &cobra.Command{
		Use: "demo-shop", Hidden: true, Args: cobra.NoArgs, Short: "The order and payment service of the demonstration",
		RunE: func(c *cobra.Command, _ []string) error {
			s, err := openShop(c.Context(), db)
			if err != nil {
				return err
			}
			defer s.db.Close()
			l, err := net.Listen("tcp", listen)
			if err != nil {
				return fmt.Errorf("demo shop: %w", err)
			}
			fmt.Fprintf(c.OutOrStdout(), "listening %s\n", l.Addr())
			server := &http.Server{Handler: s.handler(), ReadHeaderTimeout: 10 * time.Second}
			go func() {
				<-c.Context().Done()
				_ = server.Close()
			}()
			if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				return fmt.Errorf("demo shop: %w", err)
			}
			return nil
		},
	}
	c.Flags().StringVar(&listen, "listen", "127.0.0.1:0", "address to listen on")
	c.Flags().StringVar(&db, "db", "shop.db", "the shop's tables")
	return c
}

func openShop(ctx context.Context, path string) (*shop, error) {
	dsn := "file:" + (&url.URL{Path: filepath.ToSlash(path)}).EscapedPath() + "?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=busy_timeout(5000)"
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		return nil, fmt.Errorf("demo shop: %w", err)
	}
	store, err := sqlstore.New(db, sqlstore.SQLite, nil)
	if err == nil {
		err = store.Migrate(ctx)
	}
	if err == nil {
		_, err = db.ExecContext(ctx, tables)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("demo shop: %w", err), db.Close())
	}
	return &shop{db: db, store: store, engine: retrysafe.New(store, nil)}, nil
}

func (s *shop) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /orders", s.insertHandler("order", insertOrder))
	mux.HandleFunc("POST /payments", s.insertHandler("payment", insertPayment))
	mux.HandleFunc("POST /checkout", s.serveCheckout)
	mux.HandleFunc("POST /checkout-tx", s.serveCheckoutTx)
	mux.HandleFunc("GET /payments", s.servePayments)
	mux.HandleFunc("GET /effects", s.serveEffects)
	return mux
}

// request is the body of all calls.
type request struct {
	Scene string `json:"scene"`
	Item  string `json:"item,omitempty"`
	Cents int    `json:"cents,omitempty"`
	// WorkMS is how long the service works after the effect and before it answers.
	WorkMS int `json:"work_ms,omitempty"`

	fail bool            // see headFail
	hold <-chan struct{} // see headHold; nil: none
}

// headWork is WorkMS in a header: it makes the shop slower without changing the payment's body.
const headWork = "X-Demo-Work-MS"

// headFail makes the shop answer 500 after the effect.
const headFail = "X-Demo-Fail"

// headHold makes the shop keep its answer until its caller is gone, so that the caller can be
// killed before it has the answer, however slow the machine is.
const headHold = "X-Demo-Hold"

func readRequest(w http.ResponseWriter, r *http.Request) (req request, ok bool) {
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16)).Decode(&req); err != nil {
		http.Error(w, "the body is no JSON request", http.StatusBadRequest)
		return req, false
	}
	if ms, err := strconv.Atoi(r.Header.Get(headWork)); err == nil {
		req.WorkMS = ms
	}
	req.fail = r.Header.Get(headFail) != ""
	if r.Header.Get(headHold) != "" {
		req.hold = r.Context().Done()
	}
	return req, true
}

func customerOf(r *http.Request) string {
	user, _, _ := r.BasicAuth()
	return user
}

// insertHandler answers with the id of the one row that insert makes.
func (s *shop) insertHandler(what string, insert func(context.Context, execer, string, request) (int64, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		req, ok := readRequest(w, r)
		if !ok {
			return
		}
		s.writes.Lock()
		id, err := insert(r.Context(), s.db, customerOf(r), req)
		s.writes.Unlock()
		s.writeReply(w, req, what, id, err)
	}
}

// serveCheckout has two effects one after the other. A crash between them leaves an order without a
// payment.
func (s *shop) serveCheckout(w http.ResponseWriter, r *http.Request) {
	req, ok := readRequest(w, r)
	if !ok {
		return
	}
	id, err := insertOrder(r.Context(), s.db, customerOf(r), req)
	if err == nil {
		crashOnDemand(r)
		_, err = insertPayment(r.Context(), s.db, customerOf(r), req)
	}
	s.writeReply(w, req, "order", id, err)
}

// serveCheckoutTx does the same in one transaction with its record: all of it, or nothing.
func (s *shop) serveCheckoutTx(w http.ResponseWriter, r *http.Request) {
	req, ok := readRequest(w, r)
	if !ok {
		return
	}
	key := retrysafe.Key{Tenant: customerOf(r), Operation: "checkout", ID: r.Header.Get("Idempotency-Key")}
	res, err := retrysafe.DoTx(r.Context(), s.engine, s.store, key, func(ctx context.Context, tx *sql.Tx) (int64, error) {
		id, err := insertOrder(ctx, tx, customerOf(r), req)
		if err != nil {
			return 0, err
		}
		crashOnDemand(r)
		_, err = insertPayment(ctx, tx, customerOf(r), req)
		return id, err
	}, retrysafe.WithPayload(req))
	s.writeReply(w, req, "order", res.Value, err)
}

// crashOnDemand kills the process as a power cut would, if the request says so.
func crashOnDemand(r *http.Request) {
	if r.Header.Get("X-Demo-Crash") != "" {
		if self, err := os.FindProcess(os.Getpid()); err == nil {
			_ = self.Kill()
		}
		select {} // until the signal arrives
	}
}

type execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

func insertOrder(ctx context.Context, db execer, who string, req request) (int64, error) {
	return insertRow(ctx, db, "INSERT INTO orders (scene, customer, item) VALUES (?, ?, ?)", req.Scene, who, req.Item)
}

func insertPayment(ctx context.Context, db execer, who string, req request) (int64, error) {
	return insertRow(ctx, db, "INSERT INTO payments (scene, customer, cents) VALUES (?, ?, ?)", req.Scene, who, req.Cents)
}

func insertRow(ctx context.Context, db execer, query string, args ...any) (int64, error) {
	res, err := db.ExecContext(context.WithoutCancel(ctx), query, args...)
	if err != nil {
		return 0, err
	}
	return res.LastInsertId()
}

func (s *shop) writeReply(w http.ResponseWriter, req request, what string, id int64, err error) {
	if err != nil {
		http.Error(w, "the shop cannot do that now: "+err.Error(), http.StatusInternalServerError)
		return
	}
	if req.hold != nil {
		<-req.hold
	}
	time.Sleep(time.Duration(req.WorkMS) * time.Millisecond)
	if req.fail {
		http.Error(w, "the shop failed after it had charged", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(map[string]any{what: id})
}

// effects counts the effects in a scene.
type effects struct {
	Orders   int `json:"orders"`
	Payments int `json:"payments"`
}

func (s *shop) serveEffects(w http.ResponseWriter, r *http.Request) {
	scene := r.URL.Query().Get("scene")
	var e effects
	err := s.db.QueryRowContext(r.Context(),
		"SELECT (SELECT count(*) FROM orders WHERE scene = ?), (SELECT count(*) FROM payments WHERE scene = ?)", scene, scene).Scan(&e.Orders, &e.Payments)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_ = json.NewEncoder(w).Encode(e)
}

// payment is a payment that took effect.
type payment struct {
	ID    int64 `json:"id"`
	Cents int   `json:"cents"`
}

// servePayments lists the payments of a scene, the first one first.
func (s *shop) servePayments(w http.ResponseWriter, r *http.Request) {
	all, err := s.listPayments(r.Context(), r.URL.Query().Get("scene"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_ = json.NewEncoder(w).Encode(all)
}

func (s *shop) listPayments(ctx context.Context, scene string) ([]payment, error) {
	rows, err := s.db.QueryContext(ctx, "SELECT id, cents FROM payments WHERE scene = ? ORDER BY id", scene)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	all := []payment{}
	for rows.Next() {
		var p payment
		if err := rows.Scan(&p.ID, &p.Cents); err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, rows.Err()
}
