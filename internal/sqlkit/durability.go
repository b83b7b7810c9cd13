package sqlkit

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/retrysafe/retrysafe/stores/sqlstore/dbtx"
)

// Loss is a setting with which a crash can lose transactions that were committed.
type Loss struct {
	Setting string // its name and value: "fsync is off"
	Harm    string // what can happen
	Advice  string // what to do
	// Commits reports whether commits are lost. If not, the database can be damaged under a
	// condition that Harm names.
	Commits bool
}

// Text returns a sentence without a full stop. consequence says what the loss of a commit means to
// the caller, such as "ids may repeat".
func (l Loss) Text(consequence string) string {
	if l.Commits {
		return l.Setting + ": " + l.Harm + ", and " + consequence + "; " + l.Advice
	}
	return l.Setting + ": " + l.Harm + "; " + l.Advice
}

// Losses asks the database for its settings. It does not look for replicas.
func Losses(ctx context.Context, db Execer, d dbtx.Dialect) ([]Loss, error) {
	return Choose(d, sqliteLosses, postgresLosses, mysqlLosses)(ctx, db)
}

// Values of PRAGMA synchronous.
const (
	SynchronousOff   = 0
	SynchronousFull  = 2
	SynchronousExtra = 3
)

func sqliteLosses(ctx context.Context, db Execer) (found []Loss, err error) {
	var journal string
	var synchronous int
	err = errors.Join(
		db.QueryRowContext(ctx, `PRAGMA journal_mode`).Scan(&journal),
		db.QueryRowContext(ctx, `PRAGMA synchronous`).Scan(&synchronous),
	)
	if err != nil {
		return nil, err
	}
	switch {
	case journal == "wal":
	case journal == "off", journal == "memory":
		found = append(found, Loss{"journal_mode is " + journal, "a process that dies while it writes can damage the file", "use journal_mode WAL", true})
	case synchronous == SynchronousFull:
		found = append(found, Loss{"journal_mode is " + journal, "a power cut can lose the last commit unless synchronous is EXTRA", "use journal_mode WAL", true})
	}
	switch {
	case synchronous >= SynchronousFull:
	case synchronous == SynchronousOff:
		found = append(found, Loss{"synchronous is OFF", "a power cut or a crash of the machine can damage the file", "use synchronous FULL", true})
	default:
		found = append(found, Loss{fmt.Sprintf("synchronous is %d (NORMAL)", synchronous), "a power cut or a crash of the machine loses the last commits", "use synchronous FULL", true})
	}
	return found, nil
}

func postgresLosses(ctx context.Context, db Execer) (found []Loss, err error) {
	var fsync, commit, pages string
	err = db.QueryRowContext(ctx, `SELECT current_setting('fsync'), current_setting('synchronous_commit'), `+
		`current_setting('full_page_writes')`).Scan(&fsync, &commit, &pages)
	if err != nil {
		return nil, err
	}
	if fsync == "off" {
		found = append(found, Loss{"fsync is off", "a crash of the machine can damage the database", "set fsync = on", true})
	}
	if commit == "off" {
		found = append(found, Loss{"synchronous_commit is off", "a crash of the server loses the last commits", "set synchronous_commit = on for this user or database", true})
	}
	if pages == "off" {
		found = append(found, Loss{"full_page_writes is off", "a crash of the machine can damage the database, unless its file system writes pages whole", "set full_page_writes = on", false})
	}
	return found, nil
}

func mysqlLosses(ctx context.Context, db Execer) (found []Loss, err error) {
	var flush, binlog, sync int
	var doublewrite string
	err = db.QueryRowContext(ctx, `SELECT @@innodb_flush_log_at_trx_commit, @@log_bin, @@sync_binlog, `+
		`@@innodb_doublewrite`).Scan(&flush, &binlog, &sync, &doublewrite)
	if err != nil {
		return nil, err
	}
	if flush != 1 && flush != 3 { // MariaDB's 3 flushes more
		found = append(found, Loss{fmt.Sprint("innodb_flush_log_at_trx_commit is ", flush), "a crash loses the last commits", "set it to 1", true})
	}
	if binlog != 0 && sync != 1 {
		found = append(found, Loss{fmt.Sprint("sync_binlog is ", sync), "a crash of the machine loses the last commits", "set it to 1", true})
	}
	if doublewrite == "0" || strings.EqualFold(doublewrite, "off") {
		found = append(found, Loss{"innodb_doublewrite is off", "a crash of the machine can damage the database, unless its file system writes pages whole", "turn it on", false})
	}
	return found, nil
}
