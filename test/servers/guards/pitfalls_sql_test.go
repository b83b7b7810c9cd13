package guards_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
	"github.com/retrysafe/retrysafe/test/servers/internal/sqltest"
)

// snippet: update-without-id
func addPoints(ctx context.Context, db *sql.DB, points int, version int64) error {
	_, err := db.ExecContext(ctx, "UPDATE account SET points = points + ?, version = version + 1 WHERE version = ?", points, version)
	return err
}

// end

// TestPitfallUpdateWithoutID: everyone gets the points whose row has the same version.
func TestPitfallUpdateWithoutID(t *testing.T) {
	t.Parallel()
	db, _ := newAccounts(t)
	assert.NoError(t, addPoints(t.Context(), db, 20, 1), "points for ann")
	assert.Equal(t, pointsOf(t, db, "ann"), int64(120), "of ann")
	assert.Equal(t, pointsOf(t, db, "bob"), int64(120), "of bob, who was not asked for")
}

// snippet: version-is-a-constant
func addPointsOnce(ctx context.Context, db *sql.DB, id string, points int) error {
	_, err := db.ExecContext(ctx, "UPDATE account SET points = points + ?, version = version + 1 WHERE id = ? AND version = 1", points, id)
	return err // no row was changed: it was done before
}

// end

// TestPitfallVersionIsAConstant: the first update works, and none after it, although each reports
// that it was done.
func TestPitfallVersionIsAConstant(t *testing.T) {
	t.Parallel()
	db, _ := newAccounts(t)
	for range 3 { // three purchases
		assert.NoError(t, addPointsOnce(t.Context(), db, "ann", 20), "points of a purchase")
	}
	assert.Equal(t, pointsOf(t, db, "ann"), int64(120), "of ann, after three purchases")
}

// snippet: version-read-by-the-server
func addPointsHere(ctx context.Context, db *sql.DB, id string, points int) error {
	var version int64
	if err := db.QueryRowContext(ctx, "SELECT version FROM account WHERE id = ?", id).Scan(&version); err != nil {
		return err
	}
	_, err := db.ExecContext(ctx, "UPDATE account SET points = points + ?, version = version + 1 WHERE id = ? AND version = ?", points, id, version)
	return err
}

// end

// TestPitfallVersionReadByTheServer: a retry reads the version that the first call has made.
func TestPitfallVersionReadByTheServer(t *testing.T) {
	t.Parallel()
	db, _ := newAccounts(t)
	for range 2 { // a call, and its retry
		assert.NoError(t, addPointsHere(t.Context(), db, "ann", 20), "the points")
	}
	assert.Equal(t, pointsOf(t, db, "ann"), int64(140), "of ann")
}

// snippet: no-row-is-a-repeat
func addPointsAt(ctx context.Context, db *sql.DB, id string, points int, version int64) (done bool, err error) {
	r, err := db.ExecContext(ctx, "UPDATE account SET points = points + ?, version = version + 1 WHERE id = ? AND version = ?", points, id, version)
	if err != nil {
		return false, err
	}
	if n, _ := r.RowsAffected(); n == 0 {
		return true, nil // it was done before
	}
	return true, nil
}

// end

// TestPitfallNoRowIsARepeat: of two callers that have read the same version the second gets
// success, but its change is lost.
func TestPitfallNoRowIsARepeat(t *testing.T) {
	t.Parallel()
	db, _ := newAccounts(t)
	for _, n := range []int{20, 50} { // two purchases at once
		done, err := addPointsAt(t.Context(), db, "ann", n, 1)
		assert.True(t, done && err == nil, "the points: %v", err)
	}
	assert.Equal(t, pointsOf(t, db, "ann"), int64(120), "of ann, who was promised 170")
}

// snippet: select-then-insert
func placeOrder(ctx context.Context, db *sql.DB, request string) error {
	var n int
	if err := db.QueryRowContext(ctx, "SELECT count(*) FROM purchase WHERE request = ?", request).Scan(&n); err != nil || n > 0 {
		return err
	}
	_, err := db.ExecContext(ctx, "INSERT INTO purchase (request, customer) VALUES (?, 'ann')", request)
	return err
}

// end

// TestPitfallSelectThenInsert: two concurrent calls find nothing, and both insert.
func TestPitfallSelectThenInsert(t *testing.T) {
	t.Parallel()
	db, set := newAccounts(t)
	set(behindSelect(meetingOf(2)))
	assert.Equal(t, countPassing(2, func() (bool, error) { return true, placeOrder(t.Context(), db, "r1") }), 2, "calls that succeed")
	set(nil)
	assert.Equal(t, sqltest.Count(t, db, "purchase"), 2, "orders of one request")
}

// snippet: duplicate-is-success
func placeOrderAs(ctx context.Context, db *sql.DB, number, customer string) error {
	_, err := db.ExecContext(ctx, "INSERT INTO numbered (number, customer) VALUES (?, ?)", number, customer)
	if isDuplicate(err) {
		return nil // it was placed before
	}
	return err
}

// end

// TestPitfallDuplicateIsSuccess: another caller's row does not make a request a duplicate.
func TestPitfallDuplicateIsSuccess(t *testing.T) {
	t.Parallel()
	db, _ := newAccounts(t)
	for _, customer := range []string{"ann", "bob"} {
		assert.NoError(t, placeOrderAs(t.Context(), db, "2026-1", customer), "the order of %s", customer)
	}
	var customer string
	assert.NoError(t, db.QueryRowContext(t.Context(), "SELECT customer FROM numbered").Scan(&customer), "look")
	assert.Equal(t, customer, "ann", "who has an order, where bob was told the same")
}

// snippet: insert-ignore
func firstDelivery(ctx context.Context, db *sql.DB, id string) (bool, error) {
	// id VARCHAR(20)
	r, err := db.ExecContext(ctx, "INSERT IGNORE INTO processed (id) VALUES (?)", id)
	if err != nil {
		return false, err
	}
	n, err := r.RowsAffected()
	return n == 1, err
}

// end

// TestPitfallInsertIgnore: IGNORE truncates what is too long, and two messages become one.
func TestPitfallInsertIgnore(t *testing.T) {
	t.Parallel()
	db := sqltest.Open(t, "mysql", servers.MySQLDatabase(t))
	sqltest.Exec(t, db, "CREATE TABLE processed (id VARCHAR(20) PRIMARY KEY)")
	for i, id := range []string{"payment-of-2026-11-22-0001", "payment-of-2026-11-22-0002"} {
		first, err := firstDelivery(t.Context(), db, id)
		assert.NoError(t, err, "message %d", i)
		assert.Equal(t, first, i == 0, "message %d is told to be new", i)
	}
}

// snippet: upsert-that-computes
func addSold(ctx context.Context, db *sql.DB, item string, n int) error {
	_, err := db.ExecContext(ctx, "INSERT INTO sold (item, n) VALUES (?, ?) ON CONFLICT (item) DO UPDATE SET n = n + excluded.n", item, n)
	return err
}

// end

// TestPitfallUpsertThatComputes: an upsert is safe under concurrency, but a retry adds again.
func TestPitfallUpsertThatComputes(t *testing.T) {
	t.Parallel()
	db, _ := newAccounts(t)
	for range 2 { // a call, and its retry
		assert.NoError(t, addSold(t.Context(), db, "book", 3), "three books")
	}
	var n int
	assert.NoError(t, db.QueryRowContext(t.Context(), "SELECT n FROM sold WHERE item = 'book'").Scan(&n), "look")
	assert.Equal(t, n, 6, "books sold")
}

var errPoor = errors.New("there is not enough")

// snippet: check-then-subtract
func withdrawPoints(ctx context.Context, db *sql.DB, id string, n int64) error {
	var points int64
	if err := db.QueryRowContext(ctx, "SELECT points FROM account WHERE id = ?", id).Scan(&points); err != nil {
		return err
	}
	if points < n {
		return errPoor
	}
	_, err := db.ExecContext(ctx, "UPDATE account SET points = points - ? WHERE id = ?", n, id)
	return err
}

// end

// TestPitfallCheckThenSubtract: two concurrent calls both see enough.
func TestPitfallCheckThenSubtract(t *testing.T) {
	t.Parallel()
	db, set := newAccounts(t)
	set(behindSelect(meetingOf(2)))
	assert.Equal(t, countPassing(2, func() (bool, error) { return true, withdrawPoints(t.Context(), db, "ann", 80) }), 2, "calls that succeed")
	set(nil)
	assert.Equal(t, pointsOf(t, db, "ann"), int64(-60), "of ann, who had 100")
}

// snippet: enough-is-no-key
func withdrawIfThere(ctx context.Context, db *sql.DB, id string, n int64) error {
	r, err := db.ExecContext(ctx, "UPDATE account SET points = points - ? WHERE id = ? AND points >= ?", n, id, n)
	if err != nil {
		return err
	}
	if changed, _ := r.RowsAffected(); changed == 0 {
		return errPoor
	}
	return nil
}

// end

// TestPitfallEnoughIsNoKey: the condition guards the balance, but a retry subtracts again as long
// as there is enough.
func TestPitfallEnoughIsNoKey(t *testing.T) {
	t.Parallel()
	db, _ := newAccounts(t)
	for range 2 { // a call, and its retry
		assert.NoError(t, withdrawIfThere(t.Context(), db, "ann", 30), "withdraw")
	}
	assert.Equal(t, pointsOf(t, db, "ann"), int64(40), "of ann, who had 100 and took 30")
}

// snippet: go-on-after-a-duplicate
func onPaid(ctx context.Context, tx *sql.Tx, message string) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO processed (id) VALUES ($1)", message)
	if isDuplicate(err) {
		_, err = tx.ExecContext(ctx, "UPDATE seen SET n = n + 1") // count the duplicate
	}
	return err
}

// end

// TestPitfallGoOnAfterADuplicate: after a failed statement, PostgreSQL refuses all that follows,
// and the COMMIT of the whole batch.
func TestPitfallGoOnAfterADuplicate(t *testing.T) {
	t.Parallel()
	db := sqltest.Open(t, "pgx", servers.PostgresDatabase(t))
	sqltest.Exec(t, db, "CREATE TABLE processed (id TEXT PRIMARY KEY)")
	sqltest.Exec(t, db, "CREATE TABLE seen (n INT)")
	tx, err := db.BeginTx(t.Context(), nil)
	assert.NoError(t, err, "begin")
	defer tx.Rollback()
	assert.NoError(t, onPaid(t.Context(), tx, "m1"), "the first of a batch")
	err = onPaid(t.Context(), tx, "m1")
	var refused *pgconn.PgError
	assert.True(t, errors.As(err, &refused) && refused.Code == "25P02", "the repeat: %v", err)
	assert.True(t, tx.Commit() != nil, "the batch is not committed")
	assert.Equal(t, sqltest.Count(t, db, "processed"), 0, "messages of the batch that were processed")
}

// snippet: record-in-another-transaction
func payOnce(ctx context.Context, db *sql.DB, request string) error {
	_, err := db.ExecContext(ctx, "INSERT INTO processed (id) VALUES (?)", request)
	if isDuplicate(err) {
		return nil // it was paid before
	} else if err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, "UPDATE account SET points = points - 30 WHERE id = 'ann'")
	return err
}

// end

// TestPitfallRecordInAnotherTransaction: a process that dies between the two leaves a record of
// what never happened.
func TestPitfallRecordInAnotherTransaction(t *testing.T) {
	t.Parallel()
	db, set := newAccounts(t)
	set(func(step string, run func() error) error {
		if strings.HasPrefix(step, "UPDATE account") {
			return sqltest.ErrCut
		}
		return run()
	})
	assert.ErrorIs(t, payOnce(t.Context(), db, "r1"), sqltest.ErrCut, "the process that died")
	set(nil)
	assert.NoError(t, payOnce(t.Context(), db, "r1"), "the retry is told that it was paid")
	assert.Equal(t, pointsOf(t, db, "ann"), int64(100), "of ann, who has paid nothing")
}

// newAccounts returns a database with two accounts of 100 points, on SQLite, with a driver that
// calls the current fault.
func newAccounts(t *testing.T) (db *sql.DB, set func(sqltest.Fault)) {
	t.Helper()
	db, set = sqltest.OpenFaulty(t, sqltest.SQLiteDSN(sqltest.NewFile(t))+"&_pragma=busy_timeout(60000)")
	for _, q := range []string{
		"CREATE TABLE account (id TEXT PRIMARY KEY, points INTEGER NOT NULL, version INTEGER NOT NULL)",
		"INSERT INTO account VALUES ('ann', 100, 1), ('bob', 100, 1)",
		"CREATE TABLE purchase (request TEXT NOT NULL, customer TEXT NOT NULL)",
		"CREATE TABLE numbered (number TEXT PRIMARY KEY, customer TEXT NOT NULL)",
		"CREATE TABLE processed (id TEXT PRIMARY KEY)",
		"CREATE TABLE sold (item TEXT PRIMARY KEY, n INTEGER NOT NULL)",
	} {
		sqltest.Exec(t, db, q)
	}
	return db, set
}

func pointsOf(t *testing.T, db *sql.DB, id string) (n int64) {
	t.Helper()
	assert.NoError(t, db.QueryRowContext(t.Context(), "SELECT points FROM account WHERE id = ?", id).Scan(&n), "the points of %s", id)
	return n
}

// behindSelect does something after each SELECT.
func behindSelect(do func()) sqltest.Fault {
	return func(step string, run func() error) error {
		err := run()
		if strings.HasPrefix(step, "SELECT") {
			do()
		}
		return err
	}
}

func isDuplicate(err error) bool {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code == "23505"
	}
	return err != nil && strings.Contains(err.Error(), "UNIQUE constraint failed")
}
