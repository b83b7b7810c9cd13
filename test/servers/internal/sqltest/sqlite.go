package sqltest

import (
	"context"
	"net/url"
	"path/filepath"
	"sync"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// SQLiteDSN returns the recommended DSN for path, followed by more pragmas. A path may have any
// character.
func SQLiteDSN(path string, pragmas ...string) string {
	dsn := "file:" + (&url.URL{Path: path}).EscapedPath() + "?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)"
	for _, p := range pragmas {
		dsn += "&_pragma=" + p
	}
	return dsn
}

// NewFile returns the path of a database that does not exist yet.
func NewFile(t *testing.T) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "app.db")
}

// HoldFile opens a transaction that holds the file's write lock, on a separate handle, as another
// process would.
func HoldFile(t *testing.T, path string, statements ...string) (release func()) {
	t.Helper()
	db := Open(t, "sqlite", SQLiteDSN(path, "busy_timeout(5000)"))
	conn, err := db.Conn(t.Context())
	assert.NoError(t, err, "a connection")
	for _, q := range append([]string{"BEGIN IMMEDIATE"}, statements...) {
		Exec(t, conn, q)
	}
	return sync.OnceFunc(func() {
		_, _ = conn.ExecContext(context.Background(), "ROLLBACK")
		_ = conn.Close()
		_ = db.Close()
	})
}
