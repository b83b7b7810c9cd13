package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/retrysafe/retrysafe"
)

// Migrate makes the tables, or brings older ones up to date; several processes may call it at once.
// It changes nothing but the store's own tables, and fails where the store could not work: the
// database cannot be written, is locked, damaged or none at all, rights are missing, or it was
// written by a newer version. It warns by [Options].Logger of settings under which what was
// answered may be lost.
func (s *Store) Migrate(ctx context.Context) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	if err := s.backend.settings(ctx); err != nil {
		return s.failed("migrate", err)
	}
	return s.failed("migrate", s.backend.write(ctx, recordID{}, time.Time{}, func(ctx context.Context, w execer) (bool, error) {
		return true, s.backend.alone(ctx, w, func() error { return s.migrate(ctx, w) })
	}))
}

func (s *Store) migrate(ctx context.Context, w execer) error {
	var tables int
	if err := w.QueryRowContext(ctx, s.queries.exists).Scan(&tables); err != nil {
		return err
	}
	if tables == 0 {
		if err := run(ctx, w, s.queries.schema); err != nil {
			return err
		}
	}
	return s.upToDate(ctx, w)
}

// SchemaSQL is the script that makes the tables where there are none, as [Store.Migrate] does,
// under [DefaultTable].
func SchemaSQL(d Dialect) string {
	switch d {
	case SQLite:
		return sqliteSchema + "\n" + sqliteStep
	case PostgreSQL:
		return postgresSchema
	case MySQL:
		return mysqlSchema
	}
	return ""
}

// upToDate looks at the version, and goes on to the newest. Where that is the one it writes nothing
// new: a file that can only be read is found out here and not at the first call.
func (s *Store) upToDate(ctx context.Context, w execer) error {
	var version int
	err := w.QueryRowContext(ctx, s.queries.version).Scan(&version)
	switch {
	case errors.Is(err, sql.ErrNoRows) && s.queries.resumes:
		return run(ctx, w, s.queries.schema)
	case errors.Is(err, sql.ErrNoRows):
		return s.notMigrated()
	case err != nil:
		return err
	case version == s.queries.newest-1 && s.queries.step != nil:
		return run(ctx, w, s.queries.step)
	}
	if _, err := s.load(ctx, w, s.queries.loadToWrite, recordID{}); err != nil {
		return err
	}
	return run(ctx, w, s.queries.touch)
}

func run(ctx context.Context, w execer, statements []string) error {
	for _, statement := range statements {
		if _, err := w.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

var _ retrysafe.Keeper = (*Store)(nil)

// Keeps implements [retrysafe.Keeper]. It asks the server for its settings, and whether it has
// replicas that may take over without the last commits.
func (s *Store) Keeps(ctx context.Context) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	return s.failed("ask what the database keeps", s.backend.keeps(ctx))
}

var _ retrysafe.Sharer = (*Store)(nil)

// Shared implements [retrysafe.Sharer]: others can reach a server, and a file is this machine's.
func (s *Store) Shared() bool { return s.dialect != SQLite }
