package sql_test

import (
	"fmt"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/storetest"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
	"github.com/retrysafe/retrysafe/test/servers/internal/sqltest"
	"github.com/retrysafe/retrysafe/test/servers/internal/teststores"
	"github.com/retrysafe/retrysafe/test/servers/internal/waits"
)

// TestMySQLStrangeDefaults runs the contract with other session defaults: isolation, autocommit,
// time zone, modes that truncate or that parse texts differently, prepared statements, and counts
// of found rows.
func TestMySQLStrangeDefaults(t *testing.T) {
	t.Parallel()
	server := servers.StartMySQL(t)
	parameters := []string{
		"tx_isolation=%27SERIALIZABLE%27", "autocommit=0", "tx_read_only=1", "time_zone=%27%2B05:45%27", "sql_mode=%27ANSI_QUOTES%27",
		"interpolateParams=false", "clientFoundRows=true", "completion_type=2",
	}
	storetest.Run(t, func(t *testing.T) storetest.Backend {
		t.Helper()
		return mysqlBackend(t, server.DSN(parameters...), server.DSN())
	}, underDefaults(mysqlFeatures))
}

// underDefaults are the clauses that the short form also runs with other session defaults: claims,
// replays, takeovers, repeated calls, fences, bytes, time limits, transactions of others and
// progress.
func underDefaults(f storetest.Features) storetest.Features {
	if !waits.LongSoak() {
		f.Clauses = []string{"S1", "S3", "S5", "S7", "S9", "S10", "S15", "S18", "S19"}
	}
	return f
}

// TestMySQLSessionStaysAsItWas: a connection is returned with the settings that it had, whichever
// way a call ends.
func TestMySQLSessionStaysAsItWas(t *testing.T) {
	t.Parallel()
	server := servers.StartMySQL(t)
	for _, autocommit := range []int{0, 1} {
		s, db := teststores.MySQL(t, server.DSN("sql_mode=%27ANSI_QUOTES%27", "time_zone=%27%2B05:45%27", "innodb_lock_wait_timeout=77", "lock_wait_timeout=78",
			"wait_timeout=79", fmt.Sprint("autocommit=", autocommit)), nil)
		db.SetMaxOpenConns(1)
		same := func(when string) {
			t.Helper()
			var got string
			err := db.QueryRowContext(t.Context(), `SELECT CONCAT_WS(' ', @@autocommit + 0, @@sql_mode, @@time_zone, @@innodb_lock_wait_timeout, @@lock_wait_timeout,
				@@wait_timeout, @@in_transaction, @@tx_isolation)`).Scan(&got)
			assert.NoError(t, err, "%s", when)
			assert.Equal(t, got, fmt.Sprint(autocommit, " ANSI_QUOTES +05:45 77 78 79 0 REPEATABLE-READ"), "%s, autocommit=%d", when, autocommit)
		}
		same("after Migrate")
		req := teststores.Request(fmt.Sprint("a", autocommit))
		a, err := s.Acquire(t.Context(), req)
		assert.NoError(t, err, "Acquire")
		same("after a win")
		_, err = s.Lookup(t.Context(), req.Key)
		assert.NoError(t, err, "Lookup")
		same("after a look")
		late := teststores.Request("late")
		late.NotAfter = a.Record.Now.Add(-1)
		_, err = s.Acquire(t.Context(), late)
		assert.True(t, err != nil, "a late call fails")
		same("after a call that came too late")
		sqltest.Exec(t, db, `SET GLOBAL read_only = 1`)
		sqltest.Exec(t, db, `SET GLOBAL read_only = 0`)
		same("at last")
	}
}
