package sql_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sqlc-dev/marino/parser"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/sqlstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
	"github.com/retrysafe/retrysafe/test/servers/internal/sqltest"
	"github.com/retrysafe/retrysafe/test/servers/internal/teststores"
)

// TestMySQLWords: a parser of MySQL 8 accepts all statements of the store, since the tests run on
// MariaDB.
func TestMySQLWords(t *testing.T) {
	t.Parallel()
	server := servers.StartMySQL(t)
	proxy := servers.StartSQLProxy(t, server.Port, servers.MySQLMessage)
	var mu sync.Mutex
	sent, database := map[string]bool{}, regexp.MustCompile("`\\w+`\\.")
	proxy.Hook = func(statement string) servers.Cut {
		mu.Lock()
		defer mu.Unlock()
		sent[database.ReplaceAllString(statement, "")] = true
		return 0
	}
	s, db := teststores.MySQL(t, server.At(proxy.Addr, "interpolateParams=false"), nil)
	req := teststores.Request("a")
	req.NotAfter = time.Now().Add(time.Hour)
	a, err := s.Acquire(t.Context(), req)
	assert.NoError(t, err, "Acquire")
	assert.NoError(t, s.Extend(t.Context(), storeapi.ExtendRequest{Key: req.Key, Owner: req.Owner, Fence: a.Record.Fence, Lease: time.Hour}), "Extend")
	for _, list := range []storeapi.ListRequest{{}, {State: retrysafe.StateInProgress}, {InDoubt: true}, {Namespace: "a", Layer: "b", Tenant: "c", Operation: "d"}} {
		_, err = s.List(t.Context(), list)
		assert.NoError(t, err, "List")
	}
	charge := storeapi.ChargeRequest{Namespace: "app", Keys: 1, For: time.Hour, Limits: storeapi.Limits{Live: 3}}
	for _, keys := range []int64{1, 1, -1, -1} {
		charge.Keys = keys
		_, err := s.Charge(t.Context(), charge)
		assert.NoError(t, err, "Charge")
	}
	charge.Keys, charge.For = 1, time.Millisecond
	_, err = s.Charge(t.Context(), charge)
	assert.NoError(t, err, "Charge")
	late := req
	late.Key.ID, late.NotAfter = "late", a.Record.Now
	_, err = s.Acquire(t.Context(), late)
	assert.ErrorIs(t, err, retrysafe.ErrTooLate, "a late Acquire")
	sqltest.Exec(t, db, `UPDATE retrysafe_records SET state = 3, expires = 1`)
	sqltest.Exec(t, db, `UPDATE retrysafe_records_limits SET expires = 1`)
	n, err := s.Sweep(t.Context(), 10)
	assert.NoError(t, err, "Sweep")
	assert.Equal(t, n, 1, "swept")
	off, _ := teststores.MySQL(t, server.At(proxy.Addr, "autocommit=0"), nil)
	_, err = off.Lookup(t.Context(), req.Key)
	assert.NoError(t, err, "Lookup without autocommit")

	p := parser.New()
	words := func(statement string) {
		t.Helper()
		_, _, err := p.Parse(statement, "", "")
		assert.NoError(t, err, "MySQL 8 reads %q", statement)
	}
	mu.Lock()
	defer mu.Unlock()
	for statement := range sent {
		if strings.HasPrefix(statement, "SET STATEMENT ") { // MySQL is sent the rest
			_, statement, _ = strings.Cut(statement, " FOR ")
		}
		words(statement)
	}
	words(sqlstore.SchemaSQL(sqlstore.MySQL))
	for _, word := range []string{
		"FOR UPDATE SKIP LOCKED", "DELETE d FROM `retrysafe_records` ", "DELETE d FROM `retrysafe_records_limits`", "GREATEST", "IF(LAST_INSERT_ID", "VALUES(state)",
		"SET autocommit = IF(", "ROLLBACK AND", "@@transaction_isolation = ", "GET_LOCK", "SET autocommit = @", "DELETE FROM `retrysafe_records_limits` WHERE id = ?", "VALUES(counts)",
	} {
		assert.True(t, slices.ContainsFunc(mapKeys(sent), func(s string) bool { return strings.Contains(s, word) }), "the store has sent %q", word)
	}
	_, _, err = p.Parse(`INSERT INTO a (b) VALUES (1) RETURNING b`, "", "")
	assert.True(t, err != nil, "what only MariaDB knows is refused: %v", fmt.Sprint(err))
}

func mapKeys(m map[string]bool) (all []string) {
	for k := range m {
		all = append(all, k)
	}
	return all
}
