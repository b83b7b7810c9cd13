package sqllock

import (
	"context"
	"database/sql"
	_ "embed" // for the schemas
	"strings"
)

// The schemas create version 1 with the default name. They are frozen.
var (
	//go:embed schema/sqlite_v1.sql
	sqliteSchema string
	//go:embed schema/postgres_v1.sql
	postgresSchema string
	//go:embed schema/mysql_v1.sql
	mysqlSchema string
)

// SchemaSQL returns the script that creates the table [DefaultTable] if it does not exist, as
// Migrate does.
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

// migrate creates the table if it does not exist. Several processes can call it at once.
func migrate(ctx context.Context, db *sql.DB, d Dialect, table string) error {
	return patient(ctx, func() error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return explain("migrate", table, err)
		}
		defer tx.Rollback()  //nolint:errcheck // an earlier error is returned; after the commit there is nothing to undo
		if d == PostgreSQL { // IF NOT EXISTS alone can fail when two processes run it at once
			if _, err := tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock(hashtextextended($1, 0))`, "retrysafe migrates "+table); err != nil {
				return explain("migrate", table, err)
			}
		}
		for statement := range strings.SplitSeq(strings.ReplaceAll(SchemaSQL(d), DefaultTable, table), ";\n") {
			if statement = strings.TrimSpace(statement); statement == "" {
				continue
			}
			if _, err := tx.ExecContext(ctx, statement); err != nil {
				return explain("migrate", table, err)
			}
		}
		return explain("migrate", table, tx.Commit())
	})
}
