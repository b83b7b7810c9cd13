package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe/internal/sqlkit"
	"github.com/retrysafe/retrysafe/storeapi"
)

// Migrate creates the tables or upgrades older ones. Several processes can call it concurrently. It
// changes only the store's own tables. It fails if the store could not work: the database is
// read-only, locked, damaged or no database at all, rights are missing, or a newer version has
// written it. It logs warnings to [Options].Logger about settings that can lose answered calls.
//
// It may take a minute to create tables on a busy server. The index of [Options].Listing on tables
// that are there must be ready within [Options].LockWait, since writers wait meanwhile; otherwise
// the error has the statement that makes it without holding up anybody.
func (s *Store) Migrate(ctx context.Context) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	if err := s.backend.settings(ctx); err != nil {
		return s.db.failed("migrate", err)
	}
	err := s.backend.migrate(ctx, max(s.db.lockWait, tablesWait), s.createTables)
	if err != nil || !s.listing {
		return s.db.failed("migrate", err)
	}
	err = s.backend.migrate(ctx, s.db.lockWait, s.indexKeys)
	var inVain *lockError
	if errors.As(err, &inVain) && inVain.ended == nil && s.db.queries.indexOnline != "" {
		return stateError(fmt.Sprintf("sqlstore: migrate: the index of Options.Listing was not there after LockWait (%v), and writers wait while it is made; "+
			"make it yourself, once, and call Migrate again: %s", s.db.lockWait, s.db.queries.indexOnline))
	}
	return s.db.failed("migrate", err)
}

// tablesWait is how long the creation of the tables may take, if LockWait is shorter: a busy server
// takes seconds for it, and no call waits for tables that are new.
const tablesWait = time.Minute

// createTables creates the tables if there are none, with the index of [Options].Listing, and
// checks those that are there.
func (s *Store) createTables(ctx context.Context, w sqlkit.Execer) error {
	var tables int
	if err := w.QueryRowContext(ctx, s.db.queries.exists).Scan(&tables); err != nil {
		return err
	}
	if tables == 0 {
		if err := sqlkit.Run(ctx, w, s.db.queries.schema); err != nil {
			return err
		}
		if s.listing {
			if err := s.indexKeys(ctx, w); err != nil {
				return err
			}
		}
	}
	return s.upToDate(ctx, w)
}

// indexKeys creates the index of [Options].Listing if there is none.
func (s *Store) indexKeys(ctx context.Context, w sqlkit.Execer) error {
	if s.db.queries.hasIndex != "" {
		var n int
		if err := w.QueryRowContext(ctx, s.db.queries.hasIndex).Scan(&n); err != nil || n > 0 {
			return err
		}
	}
	_, err := w.ExecContext(ctx, s.db.queries.indexKeys)
	return err
}

// SchemaSQL returns the script that creates the tables if there are none, as [Store.Migrate] does,
// under [DefaultTable].
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

// upToDate checks the version, and makes a write without effect, so that a read-only file fails
// here and not at the first call.
func (s *Store) upToDate(ctx context.Context, w sqlkit.Execer) error {
	var version int
	err := w.QueryRowContext(ctx, s.db.queries.version).Scan(&version)
	switch {
	case errors.Is(err, sql.ErrNoRows) && s.db.queries.resumes:
		return sqlkit.Run(ctx, w, s.db.queries.schema)
	case errors.Is(err, sql.ErrNoRows):
		return s.db.notMigrated()
	case err != nil:
		return err
	}
	if _, err := s.db.load(ctx, w, s.db.queries.loadToWrite, recordID{}); err != nil {
		return err
	}
	return sqlkit.Run(ctx, w, s.db.queries.touch)
}

var _ storeapi.Keeper = (*Store)(nil)

// Keeps implements [storeapi.Keeper]. It asks the server for its settings, and whether it has
// replicas that may take over without the last commits.
func (s *Store) Keeps(ctx context.Context) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	return s.db.failed("ask what the database keeps", s.backend.keeps(ctx))
}

var _ storeapi.Sharer = (*Store)(nil)

// Shared implements [storeapi.Sharer]. Other machines can reach a server, but not a file.
func (s *Store) Shared() bool { return s.db.dialect != SQLite }
