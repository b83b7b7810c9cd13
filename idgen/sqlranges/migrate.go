package sqlranges

import (
	"context"
	_ "embed" // for the schemas

	"github.com/retrysafe/retrysafe/internal/sqlkit"
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
	return sqlkit.Choose(d, sqliteSchema, postgresSchema, mysqlSchema)
}

// Migrate creates the table if it does not exist. Several processes can call it at once. It warns
// through [Options].Logger of settings under which values can be assigned twice.
func (r *Ranges) Migrate(ctx context.Context) error {
	return r.explainError("migrate", r.createTable(ctx))
}

// createTable creates nothing if the table is there: it may be Leaf's, and the user may lack the
// right to create tables.
func (r *Ranges) createTable(ctx context.Context) error {
	look := `SELECT count(biz_tag), count(max_id), count(step), count(update_time) FROM ` + r.table + ` WHERE biz_tag IS NULL`
	err := sqlkit.Retry(ctx, func() error {
		var n int
		return r.db.QueryRowContext(ctx, look).Scan(&n, &n, &n, &n)
	})
	if sqlkit.MissingTable(err, r.name) {
		err = sqlkit.Migrate(ctx, r.db, r.dialect, r.name, func(ctx context.Context, db sqlkit.Execer) error {
			return sqlkit.Run(ctx, db, sqlkit.Statements(SchemaSQL(r.dialect), DefaultTable, r.name))
		})
	}
	if err != nil {
		return err
	}
	found, err := sqlkit.Losses(ctx, r.db, r.dialect)
	for _, loss := range found {
		r.logger.Warn("sqlranges: "+loss.Text("ids may repeat"), "table", r.name)
	}
	return err
}
