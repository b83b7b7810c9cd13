package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// Migrate makes the tables, or brings older ones up to date; several processes may call it at once. It changes nothing but the store's
// own tables, and fails where the store could not work: the file cannot be written, is locked, damaged or no database at all, or was
// written by a newer version. It warns by [Options].Logger of settings under which what was answered may be lost.
func (s *Store) Migrate(ctx context.Context) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	if err := s.settings(ctx); err != nil {
		return s.failed("migrate", err)
	}
	return s.failed("migrate", s.write(ctx, time.Time{}, func(ctx context.Context, w *session) (bool, error) {
		var tables int
		if err := w.QueryRowContext(ctx, s.queries.exists).Scan(&tables); err != nil {
			return false, err
		}
		if tables == 0 {
			if err := run(ctx, w, s.queries.schema); err != nil {
				return false, err
			}
		}
		return true, s.upToDate(ctx, w)
	}))
}

// upToDate looks at the version, and goes on to the newest. Where that is the one it writes nothing new: a file that can only be read is
// found out here and not at the first call.
func (s *Store) upToDate(ctx context.Context, w *session) error {
	var version int
	err := w.QueryRowContext(ctx, s.queries.version).Scan(&version)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return s.notMigrated()
	case err != nil:
		return err
	case version == schemaVersion-1:
		return run(ctx, w, s.queries.step)
	}
	if _, err := s.load(ctx, w, recordID{}); err != nil {
		return err
	}
	return run(ctx, w, []string{s.queries.touch})
}

func run(ctx context.Context, w *session, statements []string) error {
	for _, statement := range statements {
		if _, err := w.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// settings refuses a database that connections do not share, and warns of weak settings.
func (s *Store) settings(ctx context.Context) error {
	wait, cancel := s.patience(ctx, time.Time{})
	defer cancel()
	return wait.over(retry(wait, func() error {
		se, err := s.session(wait)
		if err != nil {
			return err
		}
		defer se.end(ctx)
		var file sql.NullString
		err = se.QueryRowContext(ctx, "SELECT file FROM pragma_database_list WHERE name = 'main'").Scan(&file)
		if err != nil {
			return err
		}
		if file.String == "" && s.db.Stats().MaxOpenConnections != 1 {
			return stateError("sqlstore: the database is in memory, and each connection of the pool has one of its own: " +
				"use a file, or call SetMaxOpenConns(1), or take memstore")
		}
		var journal string
		var synchronous int
		err = errors.Join(
			se.QueryRowContext(ctx, "PRAGMA journal_mode").Scan(&journal),
			se.QueryRowContext(ctx, "PRAGMA synchronous").Scan(&synchronous),
		)
		if err != nil {
			return err
		}
		s.warn(journal, synchronous)
		return nil
	}))
}

// Values of PRAGMA synchronous.
const (
	synchronousOff  = 0
	synchronousFull = 2
)

// warn says what the settings cost.
func (s *Store) warn(journal string, synchronous int) {
	warn := func(setting, text string) {
		s.logger.Warn("sqlstore: "+setting+": "+text, "table", s.table)
	}
	switch journal {
	case "wal":
	case "off", "memory":
		warn("journal_mode is "+journal, "a process that dies while it writes can damage the file, and what was answered may run again; use journal_mode WAL")
	default:
		warn("journal_mode is "+journal, "a power cut can lose the last commit unless synchronous is EXTRA, calls that only read wait for those that write, and a commit waits for those that read; use journal_mode WAL")
	}
	switch {
	case synchronous >= synchronousFull:
	case synchronous == synchronousOff:
		warn("synchronous is OFF", "a power cut or a crash of the machine can damage the file, and what was answered may run again; use synchronous FULL")
	default:
		warn("synchronous is "+fmt.Sprint(synchronous)+" (NORMAL)", "a power cut or a crash of the machine loses the last commits, and what they answered may run again; use synchronous FULL")
	}
}
