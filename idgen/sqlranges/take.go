package sqlranges

import (
	"context"
	"database/sql"
	"errors"

	"github.com/retrysafe/retrysafe/internal/sqlkit"
)

// The largest value, as a literal.
const maxValue = `9223372036854775807`

// takePostgres is one statement: it commits by itself, and a process that is paused after it holds
// no lock.
func (r *Ranges) takePostgres(ctx context.Context, tag string, n int64) (next, count int64, err error) {
	err = r.db.QueryRowContext(ctx, `UPDATE `+r.table+` SET max_id = greatest(max_id, 1) + greatest(step, $2::bigint), update_time = now()
		WHERE biz_tag = $1 AND max_id <= `+maxValue+` - greatest(step, $2::bigint) RETURNING max_id, greatest(step, $2::bigint)`, tag, n).Scan(&next, &count)
	return next, count, err
}

// errTransacts means that what is changed would be undone when the connection closes.
var errTransacts = errors.New("connections begin a transaction with each statement (autocommit = 0), so that nothing would be kept; leave that out of the address")

// takeMySQL also changes the counter with one statement, and gets the new value as the last insert
// id. It reads the step before; the step only decides how many values are taken.
func (r *Ranges) takeMySQL(ctx context.Context, tag string, n int64) (next, count int64, err error) {
	conn, err := r.db.Conn(ctx)
	if err != nil {
		return 0, 0, err
	}
	defer conn.Close() //nolint:errcheck // it goes back to the pool
	var step int64
	var autocommit bool
	if err := conn.QueryRowContext(ctx, `SELECT step, @@autocommit FROM `+r.table+` WHERE biz_tag = ?`, tag).Scan(&step, &autocommit); err != nil {
		return 0, 0, err
	}
	if !autocommit {
		sqlkit.Discard(conn) // it has begun a transaction
		return 0, 0, errTransacts
	}
	count = max(n, step)
	query := `UPDATE ` + r.table + //nolint:gosec // the name was checked
		` SET max_id = LAST_INSERT_ID(greatest(max_id, 1) + ?), update_time = CURRENT_TIMESTAMP WHERE biz_tag = ? AND max_id <= ` + maxValue + ` - ?`
	done, err := conn.ExecContext(ctx, query, count, tag, count)
	if err != nil {
		return 0, 0, err
	}
	changed, err := done.RowsAffected()
	if err == nil && changed == 0 {
		err = sql.ErrNoRows
	}
	if err != nil {
		return 0, 0, err
	}
	next, err = done.LastInsertId()
	return next, count, err
}

// takeSQLite begins with a write, so that the read after it sees what was written.
func (r *Ranges) takeSQLite(ctx context.Context, tag string, n int64) (next, count int64, err error) {
	tx, err := r.db.BeginTx(ctx, nil)
	if err != nil {
		return 0, 0, err
	}
	defer tx.Rollback() //nolint:errcheck // in case it was not committed
	query := `UPDATE ` + r.table +
		` SET max_id = max(max_id, 1) + max(step, ?), update_time = CURRENT_TIMESTAMP WHERE biz_tag = ? AND max_id <= ` + maxValue + ` - max(step, ?)`
	changed, err := sqlkit.Affected(tx.ExecContext(ctx, query, n, tag, n))
	if err == nil && changed == 0 {
		err = sql.ErrNoRows
	}
	if err != nil {
		return 0, 0, err
	}
	if err := tx.QueryRowContext(ctx, `SELECT max_id, max(step, ?) FROM `+r.table+` WHERE biz_tag = ?`, n, tag).Scan(&next, &count); err != nil {
		return 0, 0, err
	}
	return next, count, tx.Commit()
}
