package sqlstore

import (
	"context"
	"database/sql"
	"sync/atomic"
)

// mark is in the context that RunTx gives to the work. A call on the same database with this
// context would wait for the transaction that waits for it.
type mark struct {
	db    *sql.DB
	outer *mark // mark of a transaction on another database, around this one
	ended atomic.Bool
}

type markKey struct{}

// marked returns ctx with a mark. After end, calls with that context are accepted again.
func marked(ctx context.Context, db *sql.DB) (inside context.Context, end func()) {
	m := &mark{db: db}
	m.outer, _ = ctx.Value(markKey{}).(*mark)
	return context.WithValue(ctx, markKey{}, m), func() { m.ended.Store(true) }
}

func inTransaction(ctx context.Context, db *sql.DB) bool {
	m, _ := ctx.Value(markKey{}).(*mark)
	for ; m != nil; m = m.outer {
		if m.db == db && !m.ended.Load() {
			return true
		}
	}
	return false
}
