package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// settings refuses a database that connections do not share, and warns about weak settings.
func (s sqlite) settings(ctx context.Context) error {
	wait, cancel := s.db.patience(ctx, time.Time{})
	defer cancel()
	return wait.over(retry(wait, func() error {
		se, err := s.db.session(wait)
		if err != nil {
			return err
		}
		defer se.end(ctx)
		var file sql.NullString
		err = se.QueryRowContext(ctx, "SELECT file FROM pragma_database_list WHERE name = 'main'").Scan(&file)
		if err != nil {
			return err
		}
		if file.String == "" && s.db.pool.Stats().MaxOpenConnections != 1 {
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
	synchronousOff   = 0
	synchronousFull  = 2
	synchronousExtra = 3
)

// warn logs what the settings can lose.
func (s sqlite) warn(journal string, synchronous int) {
	warn := func(setting, text string) {
		s.db.logger.Warn("sqlstore: "+setting+": "+text, "table", s.db.table)
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

// keeps requires that commits reach the disk. There is no failover.
func (s sqlite) keeps(ctx context.Context) error {
	return s.read(ctx, brief, func(ctx context.Context, db execer) error {
		var journal string
		var synchronous int
		err := errors.Join(
			db.QueryRowContext(ctx, "PRAGMA journal_mode").Scan(&journal),
			db.QueryRowContext(ctx, "PRAGMA synchronous").Scan(&synchronous),
		)
		if err != nil {
			return err
		}
		least := synchronousExtra
		if journal == "wal" {
			least = synchronousFull
		}
		if journal == "off" || journal == "memory" || synchronous < least {
			return stateError(fmt.Sprintf("sqlstore: journal_mode is %s and synchronous %d: a power cut or "+
				"a crash loses the last commits; use journal_mode WAL and synchronous FULL", journal, synchronous))
		}
		return nil
	})
}
