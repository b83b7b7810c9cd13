package sql_test

import (
	"bytes"
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
	"github.com/retrysafe/retrysafe/stores/storetest"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
	"github.com/retrysafe/retrysafe/test/servers/internal/sqltest"
	"github.com/retrysafe/retrysafe/test/servers/internal/teststores"
)

// strange are session defaults under which the store must still work.
const strange = "options=-c%20default_transaction_isolation%3Dserializable%20-c%20default_transaction_read_only%3Don%20-c%20TimeZone%3DAsia/Kathmandu" +
	"%20-c%20lock_timeout%3D0%20-c%20DateStyle%3DSQL"

// TestPostgresStrangeDefaults runs the contract on one server for all clauses, with other session
// defaults, without prepared statements, and in a database whose encoding has no Unicode.
func TestPostgresStrangeDefaults(t *testing.T) {
	t.Parallel()
	server := servers.StartPostgres(t)
	_, admin := teststores.Postgres(t, server.URL(), nil)
	sqltest.Exec(t, admin, `CREATE DATABASE narrow ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0`)
	url := strings.Replace(server.URL(strange, "default_query_exec_mode=exec"), "/postgres?", "/narrow?", 1)
	features := postgresFeatures
	features.Notifier = false // Listen is not set
	storetest.Run(t, func(t *testing.T) storetest.Backend {
		t.Helper()
		o := &sqlstore.Options{Table: teststores.NewTable()}
		store, _ := teststores.Postgres(t, url, o)
		_, others := teststores.Postgres(t, strings.Replace(url, "read_only%3Don", "read_only%3Doff", 1), o)
		return storetest.Backend{
			Store:  store,
			Reopen: func() storeapi.Store { again, _ := teststores.Postgres(t, url, o); return again },
			Hold:   func(key storeapi.StoreKey) func() { return holdRow(t, others, o.Table, key) },
		}
	}, underDefaults(features))
}

// TestPostgresLongParts: parts of a key with the maximum length, which cannot be compressed, fit
// into every index.
func TestPostgresLongParts(t *testing.T) {
	t.Parallel()
	s, _ := teststores.Postgres(t, servers.StartPostgres(t).URL(), nil)
	part := func(seed int) string {
		b := make([]byte, 512)
		for i := range b {
			seed = seed*1103515245 + 12345
			b[i] = byte(seed >> 16)
		}
		return string(b)
	}
	req := teststores.Request("long")
	req.Key = storeapi.StoreKey{Namespace: part(1), Layer: part(2), Key: retrysafe.Key{Tenant: part(3), Operation: part(4), ID: part(5)}}
	a, err := s.Acquire(t.Context(), req)
	assert.NoError(t, err, "Acquire")
	assert.NoError(t, s.Release(t.Context(), storeapi.ReleaseRequest{
		Key: req.Key, Owner: req.Owner, Fence: a.Record.Fence, InDoubt: true, Cause: "a\x00b", LastError: "世界\x00",
	}), "Release")
	page, err := s.List(t.Context(), storeapi.ListRequest{Namespace: part(1), Layer: part(2), Tenant: part(3), Operation: part(4), InDoubt: true})
	assert.NoError(t, err, "List")
	assert.Equal(t, len(page.Records), 1, "records")
	assert.Equal(t, page.Records[0].LastError, "世界\x00", "what people are told")
}

// TestPostgresMigrate: many processes at once, a missing table, and versions that this build does
// not know.
func TestPostgresMigrate(t *testing.T) {
	t.Parallel()
	server := servers.StartPostgres(t)
	db := sqltest.Open(t, "pgx", server.URL())
	fresh, err := sqlstore.New(db, sqlstore.PostgreSQL, &sqlstore.Options{Logger: new(teststores.Log).Logger()})
	assert.NoError(t, err, "New")
	_, err = fresh.Acquire(t.Context(), teststores.Request("a"))
	assert.Contains(t, fmt.Sprint(err), "call Store.Migrate once", "before Migrate")
	_, err = fresh.Charge(t.Context(), storeapi.ChargeRequest{Namespace: "app", Keys: 1, For: time.Hour})
	assert.Contains(t, fmt.Sprint(err), "call Store.Migrate once", "before Migrate")
	var together sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		own := sqltest.Open(t, "pgx", server.URL())
		s, err := sqlstore.New(own, sqlstore.PostgreSQL, &sqlstore.Options{Logger: new(teststores.Log).Logger()})
		assert.NoError(t, err, "New")
		together.Go(func() { errs[i] = s.Migrate(t.Context()) })
	}
	together.Wait()
	assert.NoError(t, errors.Join(errs...), "Migrate by many at once")
	_, err = fresh.Acquire(t.Context(), teststores.Request("a"))
	assert.NoError(t, err, "Acquire")

	for version, want := range map[int]string{0: "no retrysafe has written", 2: "written by a newer retrysafe (schema 2, this build knows 1)"} {
		sqltest.Exec(t, db, `UPDATE retrysafe_records_meta SET version = $1`, version)
		_, err = fresh.Lookup(t.Context(), teststores.Request("a").Key)
		assert.Contains(t, fmt.Sprint(err), want, "Lookup on version %d", version)
		assert.Contains(t, fmt.Sprint(fresh.Migrate(t.Context())), want, "Migrate on version %d", version)
	}
}

// TestPostgresRights: a user without rights gets an error that names the missing ones. A user who
// may not create tables can use existing ones.
func TestPostgresRights(t *testing.T) {
	t.Parallel()
	server := servers.StartPostgres(t)
	_, admin := teststores.Postgres(t, server.URL(), &sqlstore.Options{Table: "theirs"})
	sqltest.Exec(t, admin, `CREATE USER clerk PASSWORD 'clerk-word'`)
	db := sqltest.Open(t, "pgx", strings.Replace(server.URL(), "retrysafe@", "clerk:clerk-word@", 1))
	store := func(table string) *sqlstore.Store {
		s, err := sqlstore.New(db, sqlstore.PostgreSQL, &sqlstore.Options{Table: table, Logger: new(teststores.Log).Logger()})
		assert.NoError(t, err, "New")
		return s
	}
	assert.Contains(t, fmt.Sprint(store("new").Migrate(t.Context())), "Migrate needs CREATE on the schema", "Migrate without tables")
	assert.Contains(t, fmt.Sprint(store("theirs").Migrate(t.Context())), "GRANT SELECT, INSERT, UPDATE, DELETE ON theirs, theirs_limits, theirs_meta", "Migrate on others' tables")
	_, err := store("theirs").Acquire(t.Context(), teststores.Request("a"))
	assert.Contains(t, fmt.Sprint(err), "this user lacks a right", "Acquire on others' tables")
	sqltest.Exec(t, admin, `GRANT SELECT, INSERT, UPDATE, DELETE ON theirs, theirs_limits, theirs_meta TO clerk`)
	assert.NoError(t, store("theirs").Migrate(t.Context()), "Migrate with rights")
	a, err := store("theirs").Acquire(t.Context(), teststores.Request("a"))
	assert.NoError(t, err, "Acquire")
	assert.Equal(t, a.Status, storeapi.StatusAcquired, "Acquire")
	_, err = store("theirs").Sweep(t.Context(), 10)
	assert.NoError(t, err, "Sweep")
}

// TestPostgresStandby: a read-only server answers what is known, and refuses the rest with a
// reason.
func TestPostgresStandby(t *testing.T) {
	t.Parallel()
	server := servers.StartPostgres(t)
	s, _ := teststores.Postgres(t, server.URL(), nil)
	req := teststores.Request("done")
	a, err := s.Acquire(t.Context(), req)
	assert.NoError(t, err, "Acquire")
	_, err = s.Complete(t.Context(), storeapi.CompleteRequest{
		Key: req.Key, Owner: req.Owner, Fence: a.Record.Fence, State: retrysafe.StateCompleted, Answer: retrysafe.Answer{Kept: true, Codec: "raw", Size: 2, Body: []byte("ok")},
	})
	assert.NoError(t, err, "Complete")
	server.Stop(t)
	server.Standby(t)
	server.Start(t)
	again := teststores.Request("done")
	again.Owner = teststores.Owner("another")
	a, err = s.Acquire(t.Context(), again)
	assert.NoError(t, err, "Acquire of finished work")
	assert.Equal(t, string(a.Record.Answer.Body), "ok", "the answer")
	_, err = s.Acquire(t.Context(), teststores.Request("new"))
	assert.Contains(t, fmt.Sprint(err), "connect to the primary", "Acquire of a new key")
	assert.Contains(t, fmt.Sprint(s.Migrate(t.Context())), "connect to the primary", "Migrate")
}

// TestPostgresWarnings: settings that can lose answered calls are reported at the start.
func TestPostgresWarnings(t *testing.T) {
	t.Parallel()
	// And fsync and full_page_writes, which all test servers turn off for speed.
	server := servers.StartPostgres(t, "-c", "synchronous_commit=off")
	var weak, strong teststores.Log
	_, _ = teststores.Postgres(t, server.URL(), &sqlstore.Options{Logger: weak.Logger()})
	for _, setting := range []string{"fsync is off", "synchronous_commit is off", "full_page_writes is off"} {
		assert.Contains(t, weak.String(), setting, "warnings")
	}
	server.Stop(t)
	server.Args = []string{"-c", "fsync=on", "-c", "full_page_writes=on"}
	server.Start(t)
	_, _ = teststores.Postgres(t, server.URL(), &sqlstore.Options{Logger: strong.Logger()})
	assert.Equal(t, strong.String(), "", "warnings of a server as it should be")
}

// TestPostgresClockReport: a record from the future is reported, once.
func TestPostgresClockReport(t *testing.T) {
	t.Parallel()
	var log teststores.Log
	server := servers.StartPostgres(t, "-c", "fsync=on", "-c", "full_page_writes=on")
	s, db := teststores.Postgres(t, server.URL(), &sqlstore.Options{Logger: log.Logger()})
	_, err := s.Acquire(t.Context(), teststores.Request("a"))
	assert.NoError(t, err, "Acquire")
	sqltest.Exec(t, db, `UPDATE retrysafe_records SET updated = updated + 60000000, lease_end = lease_end + 60000000`)
	for range 2 {
		_, err = s.Lookup(t.Context(), teststores.Request("a").Key)
		assert.NoError(t, err, "Lookup")
	}
	assert.Equal(t, strings.Count(log.String(), "in the future of the server's clock"), 1, "reports: %s", &log)
}

// TestPostgresFencesGrow: a key whose record was swept gets a greater fence, also if the clock was
// set back.
func TestPostgresFencesGrow(t *testing.T) {
	t.Parallel()
	s, db := teststores.Postgres(t, servers.StartPostgres(t).URL(), nil)
	a, err := s.Acquire(t.Context(), teststores.Request("a"))
	assert.NoError(t, err, "Acquire")
	const future = 1 << 52 // no clock shows that
	sqltest.Exec(t, db, `UPDATE retrysafe_records SET fence = $1, expires = 1`, int64(future))
	n, err := s.Sweep(t.Context(), 10)
	assert.NoError(t, err, "Sweep")
	assert.Equal(t, n, 1, "swept")
	again := teststores.Request("a")
	again.Owner = teststores.Owner("again")
	b, err := s.Acquire(t.Context(), again)
	assert.NoError(t, err, "Acquire")
	assert.Equal(t, b.Record.Fence, retrysafe.Fence(future+1), "the next fence, after %d", a.Record.Fence)
}

// TestPostgresErrorsHideSecrets: errors contain neither the password nor a key.
func TestPostgresErrorsHideSecrets(t *testing.T) {
	t.Parallel()
	server := servers.StartPostgres(t)
	s, db := teststores.Postgres(t, server.URL(), nil)
	var all bytes.Buffer
	secret := teststores.Request("secret-key")
	sqltest.Exec(t, db, `ALTER TABLE retrysafe_records ADD CHECK (updated < 1)`)
	_, err := s.Acquire(t.Context(), secret)
	fmt.Fprintln(&all, err)
	server.Kill()
	_, err = s.Acquire(t.Context(), secret)
	fmt.Fprintln(&all, err)
	locked, err := sqlstore.New(sqltest.Open(t, "pgx", strings.Replace(server.URL(), "retrysafe@", "clerk:secret-word@", 1)), sqlstore.PostgreSQL, nil)
	assert.NoError(t, err, "New")
	fmt.Fprintln(&all, locked.Migrate(t.Context()))
	assert.Equal(t, strings.Count(all.String(), "sqlstore: "), 3, "errors: %s", &all)
	assert.True(t, !strings.Contains(all.String(), "secret"), "no secrets: %s", &all)
}
