package outbox

import (
	"context"
	"database/sql"
	_ "embed" // the schemas
	"errors"
	"fmt"

	"github.com/retrysafe/retrysafe/internal/sqlkit"
)

// The schemas create version 1, with the default names. They are frozen: a change needs a new
// version and a step in Migrate.
var (
	//go:embed schema/sqlite_v1.sql
	sqliteSchema string
	//go:embed schema/postgres_v1.sql
	postgresSchema string
	//go:embed schema/mysql_v1.sql
	mysqlSchema string
)

const newestVersion = 1

// SchemaSQL returns the script that creates the tables if there are none, as [Outbox.Migrate] does,
// named after [DefaultTable].
func SchemaSQL(d Dialect) string {
	return sqlkit.Choose(d, sqliteSchema, postgresSchema, mysqlSchema)
}

// Migrate creates the tables if they are missing. Several processes may call it at once. If one is
// killed, the next call completes its work. Migrate returns an error if the tables have a newer
// version. It waits for other migrations until ctx ends.
func (o *Outbox) Migrate(ctx context.Context) error {
	return o.explainError("migrate", sqlkit.Migrate(ctx, o.db, o.dialect, o.table, func(ctx context.Context, db sqlkit.Execer) error {
		var tables, version int
		if err := db.QueryRowContext(ctx, sqlkit.TableExists(o.dialect, o.table+"_meta")).Scan(&tables); err != nil {
			return err
		}
		if tables > 0 {
			err := db.QueryRowContext(ctx, o.queries.version).Scan(&version)
			if err != nil && !errors.Is(err, sql.ErrNoRows) {
				return err
			}
		}
		switch {
		case version > newestVersion:
			return fmt.Errorf("the tables are of version %d, and this program knows up to %d: run the newer program", version, newestVersion)
		case version == newestVersion:
			return nil
		}
		return sqlkit.Run(ctx, db, sqlkit.Statements(SchemaSQL(o.dialect), DefaultTable, o.table))
	}))
}
