package sqlstore

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe/internal/sqlkit"
)

// smallestPacket has room for a record with the longest answer if every byte is escaped, as by
// drivers that write arguments into the statement's text.
const smallestPacket = 2*(1<<20+64<<10) + 64<<10

// settings refuses a server with an unusable clock or packet size, and warns about settings that
// can lose answered calls.
func (m mysql) settings(ctx context.Context) error {
	return m.read(ctx, brief, func(ctx context.Context, db sqlkit.Execer) error {
		var before, after string
		var autocommit, slept int
		var packet int64
		if err := db.QueryRowContext(ctx, `SELECT @@autocommit`).Scan(&autocommit); err != nil {
			return err
		}
		if autocommit == 0 {
			return errTransacts
		}
		// SYSDATE returns the time of its evaluation, unless the server is configured otherwise.
		err := db.QueryRowContext(ctx, `SELECT CAST(SYSDATE(6) AS CHAR), SLEEP(0.002), CAST(SYSDATE(6) AS CHAR)`).Scan(&before, &slept, &after)
		if err == nil {
			err = db.QueryRowContext(ctx, `SELECT @@max_allowed_packet`).Scan(&packet)
		}
		switch {
		case err != nil:
			return err
		case before == after:
			return stateError("sqlstore: the server runs with sysdate-is-now, so that it tells no time after a wait for a lock; leave that option out")
		case packet < smallestPacket:
			return stateError(fmt.Sprintf("sqlstore: the server's max_allowed_packet is %d, too small for a record with a long answer; set it to 16M (at least %d)", packet, smallestPacket))
		}
		return m.db.warn(ctx, db)
	})
}

// keeps also checks whether replicas may take over without the last commits. Without a binary log
// there are no replicas. With one, keeps requires that commits wait for a replica: seeing who reads
// the log needs rights that an application seldom has.
func (m mysql) keeps(ctx context.Context) error {
	return m.read(ctx, brief, func(ctx context.Context, db sqlkit.Execer) error {
		if err := m.db.refuseLosses(ctx, db); err != nil {
			return err
		}
		var binlog int
		var waits bool
		err := db.QueryRowContext(ctx, `SELECT @@log_bin`).Scan(&binlog)
		if err == nil && binlog != 0 {
			waits, err = waitsForReplica(ctx, db)
		}
		if err != nil {
			return err
		}
		if binlog != 0 && !waits {
			return stateError("sqlstore: the server has a binary log, and commits do not wait until a " +
				"replica has them: a failover loses the last ones; turn semi-synchronous replication " +
				"on, or the binary log off if there is no replica")
		}
		return nil
	})
}

// waitsForReplica reports whether commits are currently semi-synchronous. MariaDB says master,
// newer MySQL servers say source.
func waitsForReplica(ctx context.Context, db sqlkit.Execer) (bool, error) {
	rows, err := db.QueryContext(ctx, `SHOW GLOBAL STATUS WHERE variable_name IN `+
		`('Rpl_semi_sync_master_status', 'Rpl_semi_sync_source_status') AND value = 'ON'`)
	if err != nil {
		return false, err
	}
	defer rows.Close()
	return rows.Next(), rows.Err()
}

// migrate lets one process at a time migrate, and refuses tables with an engine without
// transactions.
func (m mysql) migrate(ctx context.Context, limit time.Duration, f func(context.Context, sqlkit.Execer) error) error {
	wait, cancel := patienceOf(ctx, limit)
	defer cancel()
	return m.writeWithin(wait, recordID{}, time.Time{}, func(ctx context.Context, w sqlkit.Execer) (bool, error) {
		return true, m.alone(ctx, wait, w, f)
	})
}

func (m mysql) alone(ctx context.Context, wait patience, w sqlkit.Execer, f func(context.Context, sqlkit.Execer) error) error {
	locked, err := sqlkit.LockMigration(ctx, w, MySQL, m.db.table, time.Duration(wait.left())*time.Millisecond*7/8)
	if err != nil {
		return err
	}
	if !locked {
		return stateError(fmt.Sprintf("sqlstore: another process migrates the table %s all the time (GET_LOCK), nothing was changed; try again", m.db.table))
	}
	if err = m.transactional(ctx, w); err == nil {
		err = f(ctx, w)
	}
	return cmp.Or(err, sqlkit.UnlockMigration(context.WithoutCancel(ctx), w, MySQL, m.db.table))
}

// transactional checks the engine of the existing tables.
func (m mysql) transactional(ctx context.Context, w sqlkit.Execer) error {
	rows, err := w.QueryContext(ctx, `SELECT table_name, coalesce(engine, '') FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name IN (?, ?, ?)`,
		m.db.table, m.db.table+"_limits", m.db.table+"_meta")
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var name, engine string
		if err := rows.Scan(&name, &engine); err != nil {
			return err
		}
		if !strings.EqualFold(engine, "InnoDB") {
			return stateError(fmt.Sprintf("sqlstore: the table %s is of the engine %q, which has no transactions, nothing was changed; ALTER TABLE %s ENGINE = InnoDB", name, engine, name))
		}
	}
	return rows.Err()
}
