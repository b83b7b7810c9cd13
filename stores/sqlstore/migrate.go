package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe/internal/sqlkit"
	"github.com/retrysafe/retrysafe/stores/sqlstore/internal/table"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// Migrate creates the tables or upgrades older ones. Several processes can call it concurrently. It
// changes only the store's own tables. It fails if the store could not work: the database is
// read-only, locked, damaged or no database at all, rights are missing, or a newer version has
// written it. It logs warnings to [Options].Logger about settings that can lose answered calls.
//
// It may take a minute to create tables on a busy server. The index of [Options].Listing on tables
// that are there must be ready within [Options].LockWait, since writers wait meanwhile; otherwise
// the error has the statement that makes it without holding up anybody. MySQL and MariaDB hold up
// calls for that one too, if it has to wait for a transaction that stays open.
func (s *Store) Migrate(ctx context.Context) error {
	if err := s.checkCall(ctx); err != nil {
		return err
	}
	if err := s.db.Backend.CheckSettings(ctx); err != nil {
		return s.db.CallerError("migrate", err)
	}
	err := s.db.Backend.MigrateTables(ctx, max(s.db.LockWait, tablesWait), s.createTables)
	if err != nil {
		return s.db.CallerError("migrate", err)
	}
	if err := s.findTables(ctx); err != nil || !s.listing {
		return err
	}
	return s.indexFailed(s.db.Backend.MigrateTables(ctx, s.db.LockWait, s.indexKeys))
}

// indexFailed adds to err, which came from creating the index, the statement that does it without
// Migrate.
func (s *Store) indexFailed(err error) error {
	q := s.db.Statements.Load()
	var inVain *table.LockError
	switch {
	case err == nil || q.CreateIndexOnline == "":
	case errors.As(err, &inVain) && inVain.Ended == nil:
		return table.StateError(fmt.Sprintf("sqlstore: migrate: the index of Options.Listing was not there within LockWait (%v) and the deadline of the call, "+
			"and writers wait while it is made; make it yourself, once%s, and call Migrate again: %s", s.db.LockWait, q.OnlineWaits, q.CreateIndexOnline))
	case table.LacksRight(err):
		return fmt.Errorf("sqlstore: migrate: this user may not create the index of Options.Listing; let the owner of the table make it, once%s, "+
			"and call Migrate again: %s: %w", q.OnlineWaits, q.CreateIndexOnline, err)
	}
	return s.db.CallerError("migrate", err)
}

// tablesWait is how long the creation of the tables may take, if LockWait is shorter: a busy server
// takes seconds for it, and no call waits for tables that are new.
const tablesWait = time.Minute

// createTables creates the tables if there are none, with the index of [Options].Listing, and
// checks those that are there.
func (s *Store) createTables(ctx context.Context, w sqlkit.Execer) error {
	var tables int
	if err := w.QueryRowContext(ctx, s.db.Statements.Load().CountTables).Scan(&tables); err != nil {
		return err
	}
	if tables == 0 {
		if err := sqlkit.Run(ctx, w, s.db.Statements.Load().CreateTables); err != nil {
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
	q := s.db.Statements.Load()
	var n int
	if err := w.QueryRowContext(ctx, q.CountIndex).Scan(&n); err != nil || n > 0 {
		return err
	}
	if q.CountBadIndex != "" {
		if err := w.QueryRowContext(ctx, q.CountBadIndex).Scan(&n); err != nil {
			return err
		}
		if n > 0 {
			return table.StateError(fmt.Sprintf("sqlstore: migrate: the index of Options.Listing is not valid: the statement that makes it was interrupted, "+
				"or still runs; if none runs, remove it, and call Migrate again: %s", q.DropBadIndex))
		}
	}
	if err := w.QueryRowContext(ctx, q.CountOtherIndex).Scan(&n); err != nil {
		return err
	}
	if n > 0 {
		// The index may have become valid since the first question.
		if err := w.QueryRowContext(ctx, q.CountIndex).Scan(&n); err != nil || n > 0 {
			return err
		}
		return table.StateError(fmt.Sprintf("sqlstore: migrate: the name of the index of Options.Listing belongs to an index that is not on all of the "+
			"column parts: lists would read all records. Let its owner free the name, and call Migrate again: %s", q.RenameOtherIndex))
	}
	_, err := w.ExecContext(ctx, q.CreateIndex)
	return err
}

// SchemaSQL returns the script that creates the tables if there are none, as [Store.Migrate] does,
// under [DefaultTable].
func SchemaSQL(d Dialect) string {
	return table.SchemaOf(d)
}

// upToDate checks the version, and makes a write without effect, so that a read-only file fails
// here and not at the first call.
func (s *Store) upToDate(ctx context.Context, w sqlkit.Execer) error {
	var version int
	err := w.QueryRowContext(ctx, s.db.Statements.Load().LoadVersion).Scan(&version)
	switch {
	case errors.Is(err, sql.ErrNoRows) && s.db.Statements.Load().Resumes:
		return sqlkit.Run(ctx, w, s.db.Statements.Load().CreateTables)
	case errors.Is(err, sql.ErrNoRows):
		return s.db.NotMigratedError()
	case err != nil:
		return err
	}
	if _, err := s.db.LoadRecord(ctx, w, s.db.Statements.Load().LockRow, table.RecordID{}); err != nil {
		return err
	}
	return sqlkit.Run(ctx, w, s.db.Statements.Load().TouchTables)
}

var _ storeapi.Keeper = (*Store)(nil)

// Keeps implements [storeapi.Keeper]. It asks the server for its settings, and whether it has
// replicas that may take over without the last commits.
func (s *Store) Keeps(ctx context.Context) error {
	if err := s.checkCall(ctx); err != nil {
		return err
	}
	return s.db.CallerError("ask what the database keeps", s.db.Backend.CheckDurability(ctx))
}

var _ storeapi.Sharer = (*Store)(nil)

// Shared implements [storeapi.Sharer]. Other machines can reach a server, but not a file.
func (s *Store) Shared() bool { return s.db.Dialect != SQLite }
