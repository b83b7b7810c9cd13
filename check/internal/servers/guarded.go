package servers

import (
	"context"
	"database/sql"
	"net/http"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/sqlstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// guardedDisk is the disk of a shop with retrysafe's middleware: its store, and a bank that makes
// one payment for each number that it is given.
type guardedDisk struct {
	options httpidem.Options
	store   storeapi.Store
	db      *sql.DB // nil if the store is in memory

	mu   sync.Mutex
	paid map[string]int64
}

func openIETF(string) (disk, error) {
	return &guardedDisk{
		options: httpidem.Options{Contract: httpidem.ContractIETF, Key: httpidem.Required},
		store:   memstore.New(nil), paid: map[string]int64{},
	}, nil
}

// openWaiting makes a shop whose duplicates wait for the first answer.
func openWaiting(string) (disk, error) {
	return &guardedDisk{
		options: httpidem.Options{Policy: retrysafe.Policy{Wait: time.Minute}, Answer: httpidem.AnswerOptions{KeepCookies: true}},
		store:   memstore.New(nil), paid: map[string]int64{},
	}, nil
}

func openStripeContract(dir string) (disk, error) {
	db, err := openDatabase(dir, "SELECT 1")
	if err != nil {
		return nil, err
	}
	store, err := sqlstore.New(db, sqlstore.SQLite, nil)
	if err != nil {
		return nil, err
	}
	options := httpidem.Options{Contract: httpidem.ContractStripe}
	return &guardedDisk{options: options, store: store, db: db, paid: map[string]int64{}}, store.Migrate(context.Background())
}

func openACP(string) (disk, error) {
	return &guardedDisk{
		options: httpidem.Options{Contract: httpidem.ContractACP, Policy: retrysafe.Policy{OnDoubt: retrysafe.Reexecute}},
		store:   memstore.New(nil), paid: map[string]int64{},
	}, nil
}

func (d *guardedDisk) countEffects() (int64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return int64(len(d.paid)), nil
}

func (d *guardedDisk) Close() error {
	if d.db == nil {
		return nil
	}
	return d.db.Close()
}

// lease is how long a key is not free after a process was killed.
const lease = 5 * time.Second

func (d *guardedDisk) newHandler(p *process) (http.Handler, error) {
	engine := retrysafe.New(mortalStore{d.store, p}, &retrysafe.Options{
		Secret: []byte("a secret of the shop, longer than needed"),
		Policy: retrysafe.Policy{Lease: lease},
	})
	p.ends = append(p.ends, func() {
		ended, end := context.WithCancel(context.Background())
		end()
		_ = engine.Shutdown(ended)
	})
	options := d.options
	options.Tenant = func(r *http.Request) (string, error) { return callers[r.Header.Get("Authorization")], nil }
	guarded := httpidem.New(engine, &options).Handler(newRoutes(func(w http.ResponseWriter, r *http.Request) { d.servePayment(p, w, r) }))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if callers[r.Header.Get("Authorization")] == "" {
			writeRefusal(w, &refusal{status: http.StatusUnauthorized, why: "send your token in Authorization"})
			return
		}
		guarded.ServeHTTP(w, r)
	}), nil
}

// servePayment makes the payment. The middleware calls it.
func (d *guardedDisk) servePayment(p *process, w http.ResponseWriter, r *http.Request) {
	o, no := readOrder(r)
	if no == nil {
		no = o.earlyRefusal()
	}
	if no == nil {
		no = o.doWork()
	}
	if no != nil {
		writeRefusal(w, no)
		return
	}
	number := ""
	if a, guarded := retrysafe.AttemptFrom(r.Context()); guarded {
		number = a.KeyFor("bank")
	}
	var n int64
	if err := p.runUnlessKilled(func() error { n = d.payOnce(number); return nil }); err != nil {
		panic(http.ErrAbortHandler)
	}
	receiptFor(o, n).writeTo(w, nil)
}

// payOnce pays, unless the bank has had the number, and returns which payment it is.
func (d *guardedDisk) payOnce(number string) int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := int64(len(d.paid)) + 1
	if number == "" {
		number = time.Now().String()
	}
	if first, is := d.paid[number]; is {
		return first
	}
	d.paid[number] = n
	return n
}
