package outbox

import (
	"context"
	"database/sql"
	"database/sql/driver"
	_ "embed" // the schemas
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
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

const newest = 1

// SchemaSQL returns the script that creates the tables if there are none, as [Outbox.Migrate] does,
// named after [DefaultTable].
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

// Migrate creates the tables if they are missing. Several processes may call it at once. If one is
// killed, the next call completes its work. Migrate returns an error if the tables have a newer
// version. It waits for other migrations until ctx ends.
func (o *Outbox) Migrate(ctx context.Context) error {
	return o.explain("migrate", o.alone(ctx, func(conn *sql.Conn) error {
		var tables, version int
		exists := map[Dialect]string{
			SQLite: `SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = '` + o.table + `_meta'`,
			// Not to_regclass: it may remember from before the lock that there was no table.
			PostgreSQL: `SELECT count(*) FROM pg_catalog.pg_class WHERE relname = '` + o.table + `_meta' AND pg_catalog.pg_table_is_visible(oid)`,
			MySQL: `SELECT count(*) FROM information_schema.tables WHERE table_schema = DATABASE()
				AND IF(@@lower_case_table_names = 0, CAST(table_name AS BINARY) = '` + o.table + `_meta', table_name = '` + o.table + `_meta')`,
		}[o.dialect]
		if err := conn.QueryRowContext(ctx, exists).Scan(&tables); err != nil {
			return err
		}
		if tables > 0 {
			err := conn.QueryRowContext(ctx, o.queries.version).Scan(&version)
			if err != nil && !errors.Is(err, sql.ErrNoRows) {
				return err
			}
		}
		switch {
		case version > newest:
			return fmt.Errorf("the tables are of version %d, and this program knows up to %d: run the newer program", version, newest)
		case version == newest:
			return nil
		}
		for statement := range strings.SplitSeq(strings.ReplaceAll(SchemaSQL(o.dialect), DefaultTable, o.table), ";\n") {
			if statement = strings.TrimSpace(statement); statement == "" {
				continue
			}
			if _, err := conn.ExecContext(ctx, statement); err != nil {
				return err
			}
		}
		return nil
	}))
}

// alone runs f while no other process does. On SQLite and PostgreSQL it is a transaction. MySQL
// commits each statement that creates a table separately, so f must be safe to repeat.
func (o *Outbox) alone(ctx context.Context, f func(*sql.Conn) error) (err error) {
	conn, err := o.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil { // no one else uses a connection in this state
			_ = conn.Raw(func(any) error { return driver.ErrBadConn })
		}
		_ = conn.Close()
	}()
	if o.dialect == MySQL {
		name := `MD5(CONCAT(DATABASE(), '/` + o.table + `'))`
		var got sql.NullInt64
		for got.Int64 != 1 {
			if err := conn.QueryRowContext(ctx, `SELECT GET_LOCK(`+name+`, 1)`).Scan(&got); err != nil {
				return err
			}
		}
		if err := f(conn); err != nil {
			return err
		}
		_, err = conn.ExecContext(ctx, `COMMIT`) // if autocommit is off
		if err == nil {
			_, err = conn.ExecContext(ctx, `DO RELEASE_LOCK(`+name+`)`)
		}
		return err
	}
	begin := `BEGIN IMMEDIATE`
	if o.dialect == PostgreSQL {
		begin = `BEGIN ISOLATION LEVEL READ COMMITTED`
	}
	for {
		if _, err = conn.ExecContext(ctx, begin); err == nil || !inTheWay(err) || ctx.Err() != nil {
			break
		}
		time.Sleep(time.Millisecond + rand.N(9*time.Millisecond))
	}
	if err != nil {
		return err
	}
	if o.dialect == PostgreSQL {
		if _, err := conn.ExecContext(ctx, `SELECT pg_advisory_xact_lock(hashtextextended($1, 0))`, "retrysafe migrates "+o.table); err != nil {
			return err
		}
	}
	if err := f(conn); err != nil {
		return err
	}
	_, err = conn.ExecContext(ctx, `COMMIT`)
	return err
}
