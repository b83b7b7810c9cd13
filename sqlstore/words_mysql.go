package sqlstore

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/retrysafe/retrysafe/internal/dberr"
	"github.com/retrysafe/retrysafe/internal/sqlkit"
)

// mysqlWords has what a store has learned about the words of its server: MariaDB and MySQL differ
// in a few. It learns each from the server's refusal, which changes nothing. Safe for concurrent
// use.
type mysqlWords struct {
	// oldNames: the settings of a transaction have their old names (MariaDB before 11.1).
	oldNames atomic.Bool
	// noSetStatement: no setting can be changed for one statement only (MySQL).
	noSetStatement atomic.Bool
}

// Settings of the next transaction only, with their names on MySQL and on older MariaDB. Without
// the two @ they would be those of the session. The server refuses them within a transaction.
const (
	mysqlNext    = `, @@transaction_isolation = 'READ-COMMITTED', @@transaction_read_only = 0`
	mysqlNextOld = `, @@tx_isolation = 'READ-COMMITTED', @@tx_read_only = 0`
)

// begin changes settings of the session, and makes its next transaction READ COMMITTED, READ WRITE.
// The server checks all values before it sets the first.
func (m *mysqlWords) begin(ctx context.Context, conn sqlkit.Execer, set string) error {
	for learned, undone := false, false; ; {
		old := m.oldNames.Load()
		next := mysqlNext
		if old {
			next = mysqlNextOld
		}
		_, err := conn.ExecContext(ctx, set+next)
		switch number := dberr.MySQLNumber(err); {
		case number == numberNoVariable && !learned:
			learned = true
			m.oldNames.CompareAndSwap(old, !old)
			continue
		case number == numberInTransaction && !undone:
			// from a previous user of the connection, who did not end it
			undone = true
			if err = sqlkit.Run(ctx, conn, []string{mysqlRollback}); err == nil {
				continue
			}
		}
		return err
	}
}

// mysqlWithin is the beginning of a statement that waits for rows for at most so many seconds, and
// for tables (ALTER TABLE, LOCK TABLES) for at most table. MariaDB.
func mysqlWithin(rows int64, table time.Duration) string {
	return fmt.Sprintf("SET STATEMENT innodb_lock_wait_timeout = %d, lock_wait_timeout = %d FOR ", rows, mysqlTableSeconds(table))
}

// mysqlTableSeconds converts a wait for a table to whole seconds, of which the server accepts a
// year.
func mysqlTableSeconds(wait time.Duration) int64 { return min(mysqlSeconds(wait), 365*24*60*60) }

// mysqlSeconds converts a lock wait to the server's whole seconds.
func mysqlSeconds(wait time.Duration) int64 {
	return max(1, min(int64((wait+time.Second-1)/time.Second), mysqlLongestWait))
}
