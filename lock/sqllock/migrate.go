package sqllock

import (
	"context"
	"database/sql"
	_ "embed" // for the schemas

	"github.com/retrysafe/retrysafe/internal/sqlkit"
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
	return sqlkit.Choose(d, sqliteSchema, postgresSchema, mysqlSchema)
}

// createTable creates the table if it does not exist. Several processes can call it at once.
func createTable(ctx context.Context, db *sql.DB, d Dialect, table string) error {
	return explainError("migrate", table, sqlkit.Migrate(ctx, db, d, table, func(ctx context.Context, db sqlkit.Execer) error {
		return sqlkit.Run(ctx, db, sqlkit.Statements(SchemaSQL(d), DefaultTable, table))
	}))
}
