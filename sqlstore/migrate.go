package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/retrysafe/retrysafe/internal/sqlkit"
	"github.com/retrysafe/retrysafe/storeapi"
)

// Migrate creates the tables or upgrades older ones. Several processes can call it concurrently. It
// changes only the store's own tables. It fails if the store could not work: the database is
// read-only, locked, damaged or no database at all, rights are missing, or a newer version has
// written it. It logs warnings to [Options].Logger about settings that can lose answered calls.
func (s *Store) Migrate(ctx context.Context) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	if err := s.backend.settings(ctx); err != nil {
		return s.db.failed("migrate", err)
	}
	return s.db.failed("migrate", s.backend.write(ctx, recordID{}, time.Time{}, func(ctx context.Context, w sqlkit.Execer) (bool, error) {
		return true, s.backend.alone(ctx, w, func() error { return s.migrate(ctx, w) })
	}))
}

func (s *Store) migrate(ctx context.Context, w sqlkit.Execer) error {
	var tables int
	if err := w.QueryRowContext(ctx, s.db.queries.exists).Scan(&tables); err != nil {
		return err
	}
	if tables == 0 {
		if err := sqlkit.Run(ctx, w, s.db.queries.schema); err != nil {
			return err
		}
	}
	if err := s.upToDate(ctx, w); err != nil {
		return err
	}
	return s.indexKeys(ctx, w)
}

// indexKeys creates the index of [Options].Listing if there is none.
func (s *Store) indexKeys(ctx context.Context, w sqlkit.Execer) error {
	if !s.listing {
		return nil
	}
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
