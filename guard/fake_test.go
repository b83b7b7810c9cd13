package guard_test

import (
	"context"
	"database/sql"
	"fmt"
	"reflect"
	"strings"
	"sync"

	"github.com/retrysafe/retrysafe/guard"
	"github.com/retrysafe/retrysafe/stores/sqlstore/dbtx"
)

// fakeTx is a transaction that returns prepared answers and records its statements. Queries to the
// catalogue find everything as a guard needs it.
type fakeTx struct {
	mu      sync.Mutex
	d       dbtx.Dialect
	sent    []string
	digests []string
	asked   int // queries to the catalogue
	results []result
	answers []answer
	noIndex bool
	table   string // the answer to what the table is; empty means as it should be
	narrow  bool   // the columns are not as they should be
	kind    string // of the columns of the index; empty means one that accepts anything
}

type result struct {
	n   int64
	err error
}

// answer is a row; nil values mean no row.
type answer struct {
	values []any
	err    error
}

func newFakeTx(d dbtx.Dialect) *fakeTx { return &fakeTx{d: d} }

func (f *fakeTx) Dialect() dbtx.Dialect { return f.d }

// Exec returns the results in turn. When there are none left, a statement changes one row.
func (f *fakeTx) Exec(_ context.Context, query string, args ...any) (int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if strings.HasSuffix(query, "WHERE 1 = 0") {
		f.asked++
		return 0, nil
	}
	f.noteDigests(args)
	f.sent = append(f.sent, statementText(query, args))
	if len(f.results) == 0 {
		return 1, nil
	}
	r := f.results[0]
	f.results = f.results[1:]
	return r.n, r.err
}

func (f *fakeTx) QueryRow(_ context.Context, query string, args []any, dest ...any) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, word := range []string{"pg_", "information_schema", "pragma_"} {
		if strings.Contains(query, word) {
			f.asked++
			return f.catalogue(query, dest)
		}
	}
	if strings.Contains(query, "transaction_isolation") {
		*dest[0].(*string) = "read committed" //nolint:errcheck // the query has one destination, a string
		return nil
	}
	f.sent = append(f.sent, statementText(query, args))
	if len(f.answers) == 0 {
		return sql.ErrNoRows
	}
	a := f.answers[0]
	f.answers = f.answers[1:]
	if a.err != nil {
		return a.err
	}
	for i, v := range a.values {
		if s, ok := dest[i].(sql.Scanner); ok {
			if err := s.Scan(v); err != nil {
				return err
			}
			continue
		}
		reflect.ValueOf(dest[i]).Elem().Set(reflect.ValueOf(v).Convert(reflect.TypeOf(dest[i]).Elem()))
	}
	return nil
}

func (f *fakeTx) catalogue(query string, dest []any) error {
	if n, ok := dest[0].(*int64); ok {
		*n = 1
		if f.narrow || strings.Contains(query, "nextval") { // the program assigns the ids
			*n = 0
		}
		return nil
	}
	if len(dest) == 1 {
		*dest[0].(*string) = f.kind //nolint:errcheck // the query has one destination, a string
		return nil
	}
	table, indexes := "ok", int64(1)
	switch {
	case f.table == "none":
		table = ""
	case f.table != "":
		table = f.table
	}
	if f.noIndex {
		indexes = 0
	}
	*dest[0].(*string), *dest[1].(*int64) = table, indexes //nolint:errcheck // the query has these destinations
	return nil
}

// noteDigests notes the digests among the values of a statement.
func (f *fakeTx) noteDigests(args []any) {
	for _, a := range args {
		if s, ok := a.(string); ok && len(s) == guard.DigestLen {
			f.digests = append(f.digests, s)
		}
	}
}

// statementText returns a statement followed by its values.
func statementText(query string, args []any) string {
	for i, a := range args {
		if s, ok := a.(string); ok && len(s) == guard.DigestLen {
			args[i] = "digest"
		}
	}
	return fmt.Sprint(query, " ", args)
}

var dialects = []dbtx.Dialect{dbtx.SQLite, dbtx.PostgreSQL, dbtx.MySQL}
