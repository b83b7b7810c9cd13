package sqlstore

import (
	"context"
	"database/sql"
	"sync"
	"time"
)

// statementCache has the store's frequent statements that take longer to parse than to execute.
// database/sql prepares each once for each connection. They are closed with the database.
type statementCache struct {
	mu  sync.RWMutex
	all map[string]*sql.Stmt
	one chan struct{} // has room for the one call that prepares; the others queue here
}

func newStatementCache() *statementCache {
	return &statementCache{all: make(map[string]*sql.Stmt), one: make(chan struct{}, 1)}
}

// get prepares the missing statements. It takes a connection for a moment, so a caller that holds
// one might wait for ever. It waits for that, and for other calls that prepare, within ctx.
func (c *statementCache) get(ctx context.Context, d *database, queries ...string) (map[string]*sql.Stmt, error) {
	got := make(map[string]*sql.Stmt, len(queries))
	if c.known(got, queries) {
		return got, nil
	}
	wait, cancel := d.patience(ctx, time.Time{})
	defer cancel()
	select {
	case c.one <- struct{}{}:
		defer func() { <-c.one }()
	case <-wait.Done():
		return nil, wait.over(wait.Err())
	}
	c.known(got, queries)
	for _, query := range queries {
		if got[query] != nil {
			continue
		}
		statement, err := d.pool.PrepareContext(wait, query) //nolint:sqlclosecheck // it ends with the database
		if err != nil {
			return nil, wait.over(err)
		}
		c.mu.Lock()
		c.all[query], got[query] = statement, statement
		c.mu.Unlock()
	}
	return got, nil
}

// known adds the prepared statements to got, and reports whether that is all of them.
func (c *statementCache) known(got map[string]*sql.Stmt, queries []string) (all bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	all = true
	for _, query := range queries {
		if s := c.all[query]; s != nil {
			got[query] = s
		} else {
			all = false
		}
	}
	return all
}

// prepared is a transaction with some prepared statements.
type prepared struct {
	*sql.Tx
	statements map[string]*sql.Stmt
}

func (p prepared) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if s := p.statements[query]; s != nil {
		return p.StmtContext(ctx, s).ExecContext(ctx, args...) //nolint:sqlclosecheck // it ends with the transaction
	}
	return p.Tx.ExecContext(ctx, query, args...)
}

func (p prepared) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	if s := p.statements[query]; s != nil {
		return p.StmtContext(ctx, s).QueryRowContext(ctx, args...) //nolint:sqlclosecheck // it ends with the transaction
	}
	return p.Tx.QueryRowContext(ctx, query, args...)
}

func (p prepared) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if s := p.statements[query]; s != nil {
		return p.StmtContext(ctx, s).QueryContext(ctx, args...) //nolint:sqlclosecheck // its caller does
	}
	return p.Tx.QueryContext(ctx, query, args...)
}

// pooled runs a prepared statement on any connection.
type pooled struct{ statement *sql.Stmt }

func (p pooled) QueryContext(ctx context.Context, _ string, args ...any) (*sql.Rows, error) {
	return p.statement.QueryContext(ctx, args...)
}
