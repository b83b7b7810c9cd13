package sqlstore

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// smallestPacket has room for a record with the longest answer if every byte is escaped, as by
// drivers that write arguments into the statement's text.
const smallestPacket = 2*(1<<20+64<<10) + 64<<10

// settings refuses a server with an unusable clock or packet size, and warns about settings that
// can lose answered calls.
func (m mysql) settings(ctx context.Context) error {
	return m.read(ctx, brief, func(ctx context.Context, db execer) error {
		var before, after, doublewrite string
		var autocommit, slept, flush, binlog, sync int
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
			err = db.QueryRowContext(ctx, `SELECT @@max_allowed_packet, @@innodb_flush_log_at_trx_commit, @@log_bin, @@sync_binlog, @@innodb_doublewrite`).
				Scan(&packet, &flush, &binlog, &sync, &doublewrite)
		}
		switch {
		case err != nil:
			return err
		case before == after:
			return stateError("sqlstore: the server runs with sysdate-is-now, so that it tells no time after a wait for a lock; leave that option out")
		case packet < smallestPacket:
			return stateError(fmt.Sprintf("sqlstore: the server's max_allowed_packet is %d, too small for a record with a long answer; set it to 16M (at least %d)", packet, smallestPacket))
		}
		for _, loss := range mysqlLosses(flush, binlog, sync, doublewrite) {
			m.db.logger.Warn("sqlstore: "+loss, "table", m.db.table)
		}
		return nil
	})
}

// mysqlLosses returns the settings by which a crash can lose committed transactions.
func mysqlLosses(flush, binlog, sync int, doublewrite string) (found []string) {
	if flush != 1 && flush != 3 { // MariaDB's 3 flushes more
		found = append(found, fmt.Sprint("innodb_flush_log_at_trx_commit is ", flush)+
			": a crash loses the last commits, and what they answered may run again; set it to 1")
	}
	if binlog != 0 && sync != 1 {
		found = append(found, fmt.Sprint("sync_binlog is ", sync)+": a crash of the machine loses "+
			"the last commits, and what they answered may run again; set it to 1")
	}
	if doublewrite == "0" || strings.EqualFold(doublewrite, "off") {
		found = append(found, "innodb_doublewrite is off: a crash of the machine can damage the "+
			"database, unless its file system writes pages whole; turn it on")
	}
	return found
}

// keeps also checks whether replicas may take over without the last commits. Without a binary log
// there are no replicas. With one, keeps requires that commits wait for a replica: seeing who reads
// the log needs rights that an application seldom has.
func (m mysql) keeps(ctx context.Context) error {
	return m.read(ctx, brief, func(ctx context.Context, db execer) error {
		var flush, binlog, sync int
		var waits bool
		var doublewrite string
		err := db.QueryRowContext(ctx, `SELECT @@innodb_flush_log_at_trx_commit, @@log_bin, @@sync_binlog, `+
			`@@innodb_doublewrite`).Scan(&flush, &binlog, &sync, &doublewrite)
		if err == nil && binlog != 0 {
			waits, err = waitsForReplica(ctx, db)
		}
		if err != nil {
			return err
		}
		if found := mysqlLosses(flush, binlog, sync, doublewrite); len(found) > 0 {
			return stateError("sqlstore: " + found[0])
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
func waitsForReplica(ctx context.Context, db execer) (bool, error) {
	rows, err := db.QueryContext(ctx, `SHOW GLOBAL STATUS WHERE variable_name IN `+
		`('Rpl_semi_sync_master_status', 'Rpl_semi_sync_source_status') AND value = 'ON'`)
	if err != nil {
		return false, err
	}
	defer rows.Close()
	return rows.Next(), rows.Err()
}

// alone lets one process at a time migrate, and refuses tables with an engine without transactions.
func (m mysql) alone(ctx context.Context, w execer, f func() error) error {
	// the lock's name is global to the server, and has at most 64 bytes
	const name = `CONCAT('retrysafe migrates ', MD5(CONCAT(coalesce(DATABASE(), ''), '/', ?)))`
	limit := m.db.lockWait
	if end, ok := ctx.Deadline(); ok {
		left := time.Until(end)
		limit = min(limit, left-left/8)
	}
	var got int
	if err := w.QueryRowContext(ctx, `SELECT coalesce(GET_LOCK(`+name+`, ?), 0)`, m.db.table, limit.Seconds()).Scan(&got); err != nil {
		return err
	}
	if got != 1 {
		return stateError(fmt.Sprintf("sqlstore: another process migrates the table %s all the time (GET_LOCK), nothing was changed; try again", m.db.table))
	}
	err := m.transactional(ctx, w)
	if err == nil {
		err = f()
	}
	// If this fails, the connection is lost, and the lock with it.
	if _, failed := w.ExecContext(context.WithoutCancel(ctx), `DO RELEASE_LOCK(`+name+`)`, m.db.table); err == nil {
		err = failed
	}
	return err
}

// transactional checks the engine of the existing tables.
func (m mysql) transactional(ctx context.Context, w execer) error {
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
