package servers

import (
	"database/sql"
	"errors"
	"net/http"
	"path/filepath"

	_ "modernc.org/sqlite" // the database
)

// uniqueDisk is a database whose unique index is all that the shop has against duplicates. The row
// of an order is its effect, and its answer is made from the row.
type uniqueDisk struct{ db *sql.DB }

const uniqueTable = `CREATE TABLE orders (
	id INTEGER PRIMARY KEY, caller TEXT, route TEXT, key TEXT, digest BLOB,
	UNIQUE (caller, route, key))`

func openUnique(dir string) (disk, error) {
	db, err := openDatabase(dir, uniqueTable)
	if err != nil {
		return nil, err
	}
	return &uniqueDisk{db}, nil
}

// openDatabase opens a file of SQLite and runs the statement in it.
func openDatabase(dir, statement string) (*sql.DB, error) {
	path := filepath.Join(dir, "shop.db")
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=journal_mode(WAL)&_pragma=busy_timeout(60000)")
	if err != nil {
		return nil, err
	}
	if _, err := db.Exec(statement); err != nil { //nolint:noctx // it opens what the shop lives on
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

func (d *uniqueDisk) countEffects() (n int64, err error) {
	err = d.db.QueryRow("SELECT count(*) FROM orders").Scan(&n) //nolint:noctx // one row of a local file
	return n, err
}

func (d *uniqueDisk) Close() error { return d.db.Close() }

func (d *uniqueDisk) newHandler(p *process) (http.Handler, error) {
	return newRoutes(func(w http.ResponseWriter, r *http.Request) { d.serveOrder(p, w, r) }), nil
}

func (d *uniqueDisk) serveOrder(p *process, w http.ResponseWriter, r *http.Request) {
	o, no := readOrder(r)
	if no == nil && o.key == "" {
		no = &refusal{status: http.StatusBadRequest, why: "send a key in Idempotency-Key"}
	}
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
	var id int64
	var same bool
	err := p.runUnlessKilled(func() (err error) {
		id, same, err = d.insertOrder(o)
		return err
	})
	switch {
	case errors.Is(err, errKilled):
		panic(http.ErrAbortHandler)
	case err != nil:
		writeRefusal(w, &refusal{status: http.StatusInternalServerError, why: "the database does not answer"})
	case !same:
		writeRefusal(w, &refusal{status: http.StatusConflict, why: "an order with this number has another content"})
	default:
		receiptFor(o, id).writeTo(w, nil)
	}
}

// insertOrder writes the order, or finds the row with its key. same reports whether the row has the
// same content.
func (d *uniqueDisk) insertOrder(o *order) (id int64, same bool, err error) {
	const insert = `INSERT INTO orders (caller, route, key, digest) VALUES (?, ?, ?, ?)
		ON CONFLICT (caller, route, key) DO NOTHING`
	if _, err := d.db.Exec(insert, o.caller, o.route, o.key, o.digest[:]); err != nil { //nolint:noctx // a client that hangs up stops nothing
		return 0, false, err
	}
	const row = "SELECT id, digest = ? FROM orders WHERE caller = ? AND route = ? AND key = ?"
	err = d.db.QueryRow(row, o.digest[:], o.caller, o.route, o.key).Scan(&id, &same) //nolint:noctx // as above
	return id, same, err
}
