package sqlranges

import (
	"context"
	_ "embed" // for the schemas
	"fmt"
	"strings"
)

// The schemas with the default name. They have Leaf's layout, and are frozen.
var (
	//go:embed schema/sqlite_v1.sql
	sqliteSchema string
	//go:embed schema/postgres_v1.sql
	postgresSchema string
	//go:embed schema/mysql_v1.sql
	mysqlSchema string
)

// SchemaSQL returns the statement that creates the table [DefaultTable] if it does not exist, as
// [Ranges.Migrate] does.
func SchemaSQL(d Dialect) string {
	switch d {
	case SQLite:
		return sqliteSchema
	case PostgreSQL:
		return postgresSchema
	case MySQL:
		return mysqlSchema
	}
	return ""
}

// Migrate creates the table if it does not exist. Several processes can call it at once. It warns
// through [Options].Logger of settings under which values can be assigned twice.
func (r *Ranges) Migrate(ctx context.Context) error {
	look := `SELECT count(biz_tag), count(max_id), count(step), count(update_time) FROM ` + r.table + ` WHERE biz_tag IS NULL`
	err := again(ctx, func() error {
		var n int
		err := r.db.QueryRowContext(ctx, look).Scan(&n, &n, &n, &n)
		if err == nil || !r.noTable(err) {
			return err
		}
		statement := strings.ReplaceAll(SchemaSQL(r.dialect), DefaultTable, r.name)
		if _, err = r.db.ExecContext(ctx, statement); err != nil {
			// Another process may have created it first, which PostgreSQL reports as an error.
			if r.db.QueryRowContext(ctx, look).Scan(&n, &n, &n, &n) == nil {
				return nil
			}
		}
		return err
	})
	if err == nil {
		err = r.settings(ctx)
	}
	return r.explain("migrate", err)
}

// settings warns of settings that can lose a commit.
func (r *Ranges) settings(ctx context.Context) error {
	warn := func(setting, advice string) {
		r.logger.Warn("sqlranges: "+setting+": a crash can lose the last ranges, and ids repeat; "+advice, "table", r.name)
	}
	switch r.dialect {
	case SQLite:
		var level int
		if err := r.db.QueryRowContext(ctx, `PRAGMA synchronous`).Scan(&level); err != nil {
			return err
		}
		if level < 2 {
			warn(fmt.Sprint("synchronous is ", level), "set the pragma synchronous to FULL in the address")
		}
	case PostgreSQL:
		var fsync, commit string
		if err := r.db.QueryRowContext(ctx, `SELECT current_setting('fsync'), current_setting('synchronous_commit')`).Scan(&fsync, &commit); err != nil {
			return err
		}
		if fsync == "off" || commit == "off" {
			warn("fsync is "+fsync+", synchronous_commit "+commit, "turn both on")
		}
	case MySQL:
		var flush int
		if err := r.db.QueryRowContext(ctx, `SELECT @@innodb_flush_log_at_trx_commit`).Scan(&flush); err != nil {
			return err
		}
		if flush != 1 && flush != 3 { // 3 is MariaDB's own value, and flushes more
			warn(fmt.Sprint("innodb_flush_log_at_trx_commit is ", flush), "set it to 1")
		}
	}
	return nil
}
