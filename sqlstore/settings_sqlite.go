package sqlstore

import (
	"context"
	"database/sql"
	"slices"
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
		if err := s.db.warn(ctx, se); err != nil {
			return err
		}
		var journal string
		if err := se.QueryRowContext(ctx, "PRAGMA journal_mode").Scan(&journal); err != nil {
			return err
		}
		if !slices.Contains([]string{"wal", "off", "memory"}, journal) {
			s.db.logger.Warn("sqlstore: journal_mode is "+journal+": calls that only read wait for those that write, and a commit waits for those that read; "+
				"use journal_mode WAL", "table", s.db.table)
		}
		return nil
	}))
}

// keeps requires that commits reach the disk. There is no failover.
func (s sqlite) keeps(ctx context.Context) error {
	return s.read(ctx, brief, s.db.refuseLosses)
}
