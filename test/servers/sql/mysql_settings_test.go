package sql_test

import (
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/sqlstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
	"github.com/retrysafe/retrysafe/test/servers/internal/sqltest"
	"github.com/retrysafe/retrysafe/test/servers/internal/teststores"
)

// TestMySQLMigrate: many processes at once, a missing table, and versions that this build does not
// know.
func TestMySQLMigrate(t *testing.T) {
	t.Parallel()
	server := servers.StartMySQL(t)
	db := teststores.OpenMySQL(t, server.DSN())
	fresh := teststores.NewMySQL(t, db, nil)
	_, err := fresh.Acquire(t.Context(), teststores.Request("a"))
	assert.Contains(t, fmt.Sprint(err), "call Store.Migrate once", "before Migrate")
	_, err = fresh.Charge(t.Context(), storeapi.ChargeRequest{Namespace: "app", Keys: 1, For: time.Hour})
	assert.Contains(t, fmt.Sprint(err), "call Store.Migrate once", "before Migrate")
	var together sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		s := teststores.NewMySQL(t, teststores.OpenMySQL(t, server.DSN()), nil)
		together.Go(func() { errs[i] = s.Migrate(t.Context()) })
	}
	together.Wait()
	assert.NoError(t, errors.Join(errs...), "Migrate by many at once")
	_, err = fresh.Acquire(t.Context(), teststores.Request("a"))
	assert.NoError(t, err, "Acquire")
	var locks int
	err = db.QueryRowContext(t.Context(), `SELECT coalesce(IS_USED_LOCK(CONCAT('retrysafe migrates ', MD5(CONCAT(DATABASE(), '/retrysafe_records')))), 0)`).Scan(&locks)
	assert.NoError(t, err, "look at the lock")
	assert.Equal(t, locks, 0, "the lock of Migrate is given back")

	for version, want := range map[int]string{0: "no retrysafe has written", 2: "written by a newer retrysafe (schema 2, this build knows 1)"} {
		sqltest.Exec(t, db, `UPDATE retrysafe_records_meta SET version = ?`, version)
		_, err = fresh.Lookup(t.Context(), teststores.Request("a").Key)
		assert.Contains(t, fmt.Sprint(err), want, "Lookup on version %d", version)
		assert.Contains(t, fmt.Sprint(fresh.Migrate(t.Context())), want, "Migrate on version %d", version)
	}
}

// TestMySQLMigrateHalfWay: the server commits each CREATE TABLE by itself. Wherever a migration is
// cut off, the next one completes it.
func TestMySQLMigrateHalfWay(t *testing.T) {
	t.Parallel()
	server := servers.StartMySQL(t)
	proxy := servers.StartSQLProxy(t, server.Port, servers.MySQLMessage)
	for n, cutAt := range []string{"CREATE TABLE IF NOT EXISTS `half_0`", "CREATE TABLE IF NOT EXISTS `half_1_limits`", "CREATE TABLE IF NOT EXISTS `half_2_meta`", "INSERT INTO `half_3_meta`", mysqlCommits} {
		for _, what := range []servers.Cut{servers.LoseRequest, servers.LoseReply} {
			o := &sqlstore.Options{Table: fmt.Sprint("half_", n)}
			db := teststores.OpenMySQL(t, server.At(proxy.Addr))
			proxy.Set(cutAt, what)
			err := teststores.NewMySQL(t, db, o).Migrate(t.Context())
			if cutAt == mysqlCommits {
				assert.Contains(t, fmt.Sprint(err), "it is unknown", "Migrate without an answer to its commit")
			} else {
				assert.NoError(t, err, "Migrate whose connection was cut at %q", cutAt)
			}
			s, _ := teststores.MySQL(t, server.DSN(), o)
			a, err := s.Acquire(t.Context(), teststores.Request("a"))
			assert.NoError(t, err, "Acquire")
			assert.Equal(t, a.Status, storeapi.StatusAcquired, "Acquire")
			for _, suffix := range []string{"", "_limits", "_meta"} {
				sqltest.Exec(t, db, "DROP TABLE "+o.Table+suffix)
			}
		}
	}
	// This is what a process leaves that was killed in between.
	db := teststores.OpenMySQL(t, server.DSN())
	parts := strings.SplitAfter(sqlstore.SchemaSQL(sqlstore.MySQL), ";\n")
	for n := range parts {
		for _, statement := range parts[:n] {
			sqltest.Exec(t, db, statement)
		}
		s, _ := teststores.MySQL(t, server.DSN(), nil)
		_, err := s.Acquire(t.Context(), teststores.Request("a"))
		assert.NoError(t, err, "Acquire after a migration that was left after %d statements", n)
		sqltest.Exec(t, db, `DROP TABLE retrysafe_records, retrysafe_records_limits, retrysafe_records_meta`)
	}
}

// TestMySQLRights: a user without rights gets an error that names the missing ones. A user who may
// not create tables can use existing ones.
func TestMySQLRights(t *testing.T) {
	t.Parallel()
	server := servers.StartMySQL(t, "--max-connections=12")
	_, admin := teststores.MySQL(t, server.DSN(), &sqlstore.Options{Table: "theirs"})
	sqltest.Exec(t, admin, `CREATE USER clerk@'%' IDENTIFIED BY 'clerk-word'`)
	as := func(who string) string { return strings.Replace(server.DSN(), "root@", who+"@", 1) }
	db := teststores.OpenMySQL(t, as("clerk:clerk-word"))
	store := func(table string) *sqlstore.Store { return teststores.NewMySQL(t, db, &sqlstore.Options{Table: table}) }
	assert.Contains(t, fmt.Sprint(store("new").Migrate(t.Context())), "may not use the database", "Migrate without any right")
	sqltest.Exec(t, admin, `GRANT SELECT ON retrysafe.theirs_meta TO clerk@'%'`)
	assert.Contains(t, fmt.Sprint(store("new").Migrate(t.Context())), "Migrate needs CREATE on the database", "Migrate without tables")
	_, err := store("theirs").Acquire(t.Context(), teststores.Request("a"))
	assert.Contains(t, fmt.Sprint(err), "this user lacks a right", "Acquire on others' tables")
	for _, table := range []string{"theirs", "theirs_limits", "theirs_meta"} {
		assert.Contains(t, fmt.Sprint(store("theirs").Migrate(t.Context())), "GRANT SELECT, INSERT, UPDATE, DELETE", "Migrate on others' tables")
		sqltest.Exec(t, admin, `GRANT SELECT, INSERT, UPDATE, DELETE ON retrysafe.`+table+` TO clerk@'%'`)
	}
	assert.NoError(t, store("theirs").Migrate(t.Context()), "Migrate with rights")
	a, err := store("theirs").Acquire(t.Context(), teststores.Request("a"))
	assert.NoError(t, err, "Acquire")
	assert.Equal(t, a.Status, storeapi.StatusAcquired, "Acquire")
	_, err = store("theirs").Sweep(t.Context(), 10)
	assert.NoError(t, err, "Sweep")

	for dsn, want := range map[string]string{
		as("clerk:wrong-word"): "the server refuses the user or the password",
		strings.Replace(server.DSN(), "/retrysafe?", "/absent?", 1): "there is no such database",
		strings.Replace(server.DSN(), "/retrysafe?", "/?", 1):       "the address names no database",
	} {
		err := teststores.NewMySQL(t, teststores.OpenMySQL(t, dsn), nil).Migrate(t.Context())
		assert.Contains(t, fmt.Sprint(err), want, "Migrate")
		assert.True(t, !strings.Contains(fmt.Sprint(err), "-word"), "no password: %v", err)
	}
	var held []*sql.Conn
	many := teststores.OpenMySQL(t, as("clerk:clerk-word"))
	many.SetMaxOpenConns(0)
	for {
		conn, err := many.Conn(t.Context())
		if err != nil {
			break
		}
		held = append(held, conn)
	}
	_, err = teststores.NewMySQL(t, teststores.OpenMySQL(t, as("clerk:clerk-word")), &sqlstore.Options{Table: "theirs"}).Acquire(t.Context(), teststores.Request("b"))
	assert.Contains(t, fmt.Sprint(err), "the server has no connection left", "Acquire with %d connections held", len(held))
	for _, conn := range held {
		_ = conn.Close()
	}
}

// TestMySQLReadOnly: a read-only server answers what is known, and refuses the rest with a reason.
func TestMySQLReadOnly(t *testing.T) {
	t.Parallel()
	server := servers.StartMySQL(t)
	_, admin := teststores.MySQL(t, server.DSN(), nil)
	sqltest.Exec(t, admin, `CREATE USER clerk@'%'`)
	sqltest.Exec(t, admin, `GRANT ALL ON retrysafe.* TO clerk@'%'`)
	s, _ := teststores.MySQL(t, strings.Replace(server.DSN(), "root@", "clerk@", 1), nil)
	req := teststores.Request("done")
	a, err := s.Acquire(t.Context(), req)
	assert.NoError(t, err, "Acquire")
	_, err = s.Complete(t.Context(), storeapi.CompleteRequest{
		Key: req.Key, Owner: req.Owner, Fence: a.Record.Fence, State: retrysafe.StateCompleted, Answer: retrysafe.Answer{Kept: true, Codec: "raw", Size: 2, Body: []byte("ok")},
	})
	assert.NoError(t, err, "Complete")
	sqltest.Exec(t, admin, `SET GLOBAL read_only = 1`)
	again := teststores.Request("done")
	again.Owner = teststores.Owner("another")
	a, err = s.Acquire(t.Context(), again)
	assert.NoError(t, err, "Acquire of finished work")
	assert.Equal(t, string(a.Record.Answer.Body), "ok", "the answer")
	_, err = s.Acquire(t.Context(), teststores.Request("new"))
	assert.Contains(t, fmt.Sprint(err), "connect to the primary", "Acquire of a new key")
	assert.Contains(t, fmt.Sprint(s.Migrate(t.Context())), "connect to the primary", "Migrate")
}

// TestMySQLServersThatDoNotFit: settings under which the store cannot keep its guarantees are
// refused, or reported, at the start.
func TestMySQLServersThatDoNotFit(t *testing.T) {
	t.Parallel()
	try := func(db *sql.DB) (string, error) {
		var log teststores.Log
		err := teststores.NewMySQL(t, db, &sqlstore.Options{Logger: log.Logger()}).Migrate(t.Context())
		return log.String(), err
	}
	server := servers.StartMySQL(t, "--sysdate-is-now")
	_, err := try(teststores.OpenMySQL(t, server.DSN()))
	assert.Contains(t, fmt.Sprint(err), "leave that option out", "Migrate with sysdate-is-now")

	server.Stop(t)
	server.Args = []string{"--log-bin=b", "--binlog-format=STATEMENT", "--skip-innodb-doublewrite"}
	server.Start(t)
	admin := teststores.OpenMySQL(t, server.DSN())
	log, err := try(admin)
	assert.NoError(t, err, "Migrate with a log of statements")
	_, err = teststores.NewMySQL(t, admin, nil).Acquire(t.Context(), teststores.Request("a"))
	assert.Contains(t, fmt.Sprint(err), "binlog_format=ROW or MIXED", "Acquire with a log of statements")
	for _, setting := range []string{"innodb_flush_log_at_trx_commit is 0", "sync_binlog is 0", "innodb_doublewrite is off"} {
		assert.Contains(t, log, setting, "warnings")
	}

	server.Stop(t)
	server.Args = []string{"--log-bin=b", "--sync-binlog=1", "--innodb-flush-log-at-trx-commit=1"}
	server.Start(t)
	admin = teststores.OpenMySQL(t, server.DSN())
	log, err = try(admin)
	assert.NoError(t, err, "Migrate of a server as it should be")
	assert.Equal(t, log, "", "warnings of a server as it should be")
	sqltest.Exec(t, admin, `SET GLOBAL max_allowed_packet = 1048576`)
	small := teststores.OpenMySQL(t, server.DSN())
	_, err = try(small)
	assert.Contains(t, fmt.Sprint(err), "max_allowed_packet is 1048576, too small", "Migrate with small packets")
	s := teststores.NewMySQL(t, small, nil)
	req := teststores.Request("long")
	a, err := s.Acquire(t.Context(), req)
	assert.NoError(t, err, "Acquire")
	_, err = s.Complete(t.Context(), storeapi.CompleteRequest{
		Key: req.Key, Owner: req.Owner, Fence: a.Record.Fence, State: retrysafe.StateCompleted,
		Answer: retrysafe.Answer{Kept: true, Codec: "raw", Size: 1 << 20, Body: make([]byte, 1<<20)},
	})
	assert.True(t, err != nil, "an answer that is too long for the server is an error")
	rec, err := s.Lookup(t.Context(), req.Key)
	assert.NoError(t, err, "Lookup")
	assert.Equal(t, rec.State, retrysafe.StateInProgress, "what is stored")
	sqltest.Exec(t, admin, `ALTER TABLE retrysafe_records_limits ENGINE = MyISAM`)
	sqltest.Exec(t, admin, `SET GLOBAL max_allowed_packet = 16777216`)
	_, err = try(teststores.OpenMySQL(t, server.DSN()))
	assert.Contains(t, fmt.Sprint(err), "ALTER TABLE retrysafe_records_limits ENGINE = InnoDB", "Migrate on tables without transactions")
}

// TestMySQLDiskFull: without space a call fails and says so, and existing data stays.
func TestMySQLDiskFull(t *testing.T) {
	t.Parallel()
	server := servers.StartMySQL(t)
	s, db := teststores.MySQL(t, server.DSN(), nil)
	_, err := s.Acquire(t.Context(), teststores.Request("a"))
	assert.NoError(t, err, "Acquire")
	sqltest.Exec(t, db, `SET GLOBAL innodb_file_per_table = 0`)
	server.Stop(t)
	server.Args = []string{"--innodb-data-file-path=ibdata1:12M", "--innodb-file-per-table=0"}
	server.Start(t)
	full, _ := teststores.MySQL(t, server.DSN(), &sqlstore.Options{Table: "full_up"})
	for i := 0; err == nil && i < 40; i++ {
		req := teststores.Request(fmt.Sprint("k", i))
		var a storeapi.Acquired
		if a, err = full.Acquire(t.Context(), req); err == nil {
			_, err = full.Complete(t.Context(), storeapi.CompleteRequest{
				Key: req.Key, Owner: req.Owner, Fence: a.Record.Fence, State: retrysafe.StateCompleted,
				Answer: retrysafe.Answer{Kept: true, Codec: "raw", Size: 1 << 20, Body: make([]byte, 1<<20)},
			})
		}
	}
	assert.Contains(t, fmt.Sprint(err), "make room", "a full table space")
	rec, err := s.Lookup(t.Context(), teststores.Request("a").Key)
	assert.NoError(t, err, "Lookup")
	assert.Equal(t, rec.State, retrysafe.StateInProgress, "what was there")
}
