package guards_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/guard"
	"github.com/retrysafe/retrysafe/guard/etag"
	"github.com/retrysafe/retrysafe/stores/sqlstore"
	"github.com/retrysafe/retrysafe/stores/sqlstore/dbtx"
)

// exampleShop opens a database with a table, and retrysafe on it.
func exampleShop(tables ...string) (db *sql.DB, engine *retrysafe.Engine, store *sqlstore.Store, end func()) {
	dir, err := os.MkdirTemp("", "retrysafe")
	if err != nil {
		log.Fatal(err)
	}
	db, err = sql.Open("sqlite", filepath.Join(dir, "shop.db")+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=busy_timeout(5000)&_txlock=immediate")
	if err != nil {
		log.Fatal(err)
	}
	for _, q := range tables {
		if _, err := db.Exec(q); err != nil {
			log.Fatal(err)
		}
	}
	if store, err = sqlstore.New(db, sqlstore.SQLite, nil); err != nil {
		log.Fatal(err)
	}
	if err := store.Migrate(context.Background()); err != nil {
		log.Fatal(err)
	}
	engine = retrysafe.New(store, &retrysafe.Options{Namespace: "shop", Secret: []byte("the same on all processes")})
	return db, engine, store, func() {
		_ = engine.Shutdown(context.Background())
		_ = db.Close()
		_ = os.RemoveAll(dir)
	}
}

// inTx runs f in a transaction of the application.
func inTx(db *sql.DB, f func(ctx context.Context, tx dbtx.Tx) (guard.Outcome, error)) (out guard.Outcome, err error) {
	ctx := context.Background()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer tx.Rollback()
	if out, err = f(ctx, dbtx.SQL(tx, dbtx.SQLite)); err != nil {
		return 0, err
	}
	return out, tx.Commit()
}

// describeOutcome returns what the caller learns.
func describeOutcome(out guard.Outcome, err error) string {
	for _, known := range []error{guard.ErrStale, guard.ErrMissing, guard.ErrRefused, guard.ErrIllegal, guard.ErrFenced, guard.ErrConflict} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	if err != nil {
		return err.Error()
	}
	return out.String()
}

// One vote for each voter and poll, whatever its key. A duplicate of the same request succeeds; a
// second vote is refused.
func Example_guardUnique() {
	db, _, _, end := exampleShop(
		"CREATE TABLE vote (poll INTEGER NOT NULL, voter TEXT NOT NULL, choice TEXT NOT NULL, by_key TEXT, UNIQUE (poll, voter))")
	defer end()
	votes := &guard.Unique{Table: "vote", Columns: []string{"poll", "voter"}, Key: "by_key"}

	vote := func(key, choice string) {
		by := retrysafe.Key{Tenant: "ann", Operation: "vote", ID: key}
		fmt.Println(choice+":", describeOutcome(inTx(db, func(ctx context.Context, tx dbtx.Tx) (guard.Outcome, error) {
			return votes.Insert(ctx, tx, by, guard.Set{"poll": 7, "voter": "ann", "choice": choice})
		})))
	}
	vote("5f0c", "red")
	vote("5f0c", "red") // the client did not see the answer and retries
	vote("77aa", "blue")
	// Output:
	// red: applied
	// red: already applied
	// blue: guard: another request's row is there
}

// The id of the order is chosen before it is submitted, and is its primary key.
func Example_guardPrimaryKey() {
	db, _, _, end := exampleShop("CREATE TABLE orders (id TEXT PRIMARY KEY, customer TEXT NOT NULL, by_key TEXT)")
	defer end()
	orders := &guard.PrimaryKey{Table: "orders", ID: "id", Key: "by_key"}

	submit := func(customer, id string) {
		by := retrysafe.Key{Tenant: customer, Operation: "order", ID: id}
		fmt.Println(customer+":", describeOutcome(inTx(db, func(ctx context.Context, tx dbtx.Tx) (guard.Outcome, error) {
			return orders.Insert(ctx, tx, id, by, guard.Set{"customer": customer})
		})))
	}
	submit("ann", "0195f0c2-77aa-7000-8000-5f0c00000001")
	submit("ann", "0195f0c2-77aa-7000-8000-5f0c00000001")
	submit("eve", "0195f0c2-77aa-7000-8000-5f0c00000001") // another caller's id is not her success
	// Output:
	// ann: applied
	// ann: already applied
	// eve: guard: another request's row is there
}

// A change that is based on what the client saw: the version comes back in If-Match, and the key
// tells a duplicate from a lost race.
func Example_guardVersion() {
	db, _, _, end := exampleShop(
		"CREATE TABLE account (id INTEGER PRIMARY KEY, points INTEGER NOT NULL, version INTEGER NOT NULL, last_key TEXT)",
		"INSERT INTO account VALUES (1, 100, 5, NULL)")
	defer end()
	account := &guard.Version{Table: "account", ID: "id", Column: "version", LastKey: "last_key"}

	add := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		version, err := etag.IfMatch(r)
		if err == nil {
			by := retrysafe.Key{Operation: "points.add", ID: r.Header.Get("Idempotency-Key")}
			_, err = inTx(db, func(ctx context.Context, tx dbtx.Tx) (guard.Outcome, error) {
				return account.Update(ctx, tx, 1, version, by, guard.Set{"points": guard.Add(20)})
			})
		}
		switch {
		case etag.Refuse(w, err):
		case err != nil:
			http.Error(w, "try again", http.StatusServiceUnavailable)
		}
	})
	send := func(key, version string) {
		r := httptest.NewRequest(http.MethodPost, "/points", http.NoBody)
		r.Header.Set("Idempotency-Key", key)
		if version != "" {
			r.Header.Set("If-Match", version)
		}
		w := httptest.NewRecorder()
		add(w, r)
		fmt.Println(key, version, w.Code)
	}
	send("a", `"5"`)
	send("a", `"5"`) // a duplicate
	send("b", `"5"`) // based on a version that is gone
	send("b", "")
	var points int
	if err := db.QueryRow("SELECT points FROM account").Scan(&points); err != nil {
		log.Fatal(err)
	}
	fmt.Println("points:", points)
	// Output:
	// a "5" 200
	// a "5" 200
	// b "5" 412
	// b  428
	// points: 120
}

// An order only moves forward. A late retry learns that its move was made, and a request that comes
// too late is refused.
func Example_guardTransition() {
	db, _, _, end := exampleShop("CREATE TABLE orders (id INTEGER PRIMARY KEY, status TEXT NOT NULL, note TEXT)", "INSERT INTO orders VALUES (1, 'placed', NULL)")
	defer end()
	type status string
	orders, err := guard.NewMachine("orders", "id", "status", map[status][]status{"placed": {"paid", "cancelled"}, "paid": {"sent"}}, nil)
	if err != nil {
		log.Fatal(err)
	}
	const id = 1

	pay := func(ctx context.Context, tx dbtx.Tx) (guard.Outcome, error) {
		out, err := orders.Move(ctx, tx, id, "placed", "paid", guard.Set{"note": "card"})
		if out == guard.Applied {
			fmt.Println("what else the payment does in this transaction")
		}
		return out, err
	}
	send := func(ctx context.Context, tx dbtx.Tx) (guard.Outcome, error) {
		return orders.Move(ctx, tx, id, "paid", "sent", nil)
	}
	cancel := func(ctx context.Context, tx dbtx.Tx) (guard.Outcome, error) {
		return orders.Move(ctx, tx, id, "placed", "cancelled", nil)
	}
	fmt.Println("pay:", describeOutcome(inTx(db, pay)))
	// the payment provider sends its callback again
	fmt.Println("pay:", describeOutcome(inTx(db, pay)))
	fmt.Println("send:", describeOutcome(inTx(db, send)))
	fmt.Println("pay:", describeOutcome(inTx(db, pay)))
	fmt.Println("cancel:", describeOutcome(inTx(db, cancel)))
	// Output:
	// what else the payment does in this transaction
	// pay: applied
	// pay: already applied
	// send: applied
	// pay: already applied
	// cancel: guard: the move is not allowed
}
