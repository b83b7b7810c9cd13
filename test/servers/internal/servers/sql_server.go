package servers

import (
	"database/sql"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/servertest"
)

// sqlServer is what PostgreSQL and MySQL have in common: a server for one test, on loopback, which
// keeps its data and its port when it is started again.
type sqlServer struct {
	dir, port string
	as        *syscall.Credential
	process   servertest.Process
}

// template is a new data directory, created once and copied, which takes a fraction of the time. It
// is removed after the last test.
type template struct {
	once sync.Once
	dir  string
}

// newSQLServer returns a server with new data in dir/data; create makes them.
func newSQLServer(tb testing.TB, as *syscall.Credential, t *template, create func(tb testing.TB, dir string, as *syscall.Credential)) *sqlServer {
	tb.Helper()
	t.once.Do(func() {
		all := untilTheEnd{tb}
		dir := servertest.Folder(all, as)
		create(all, dir, as)
		t.dir = dir
	})
	if t.dir == "" {
		tb.Fatal("no new databases could be made; another test says why")
	}
	s := &sqlServer{dir: servertest.Folder(tb, as), port: FreePort(tb), as: as}
	said, err := exec.CommandContext(tb.Context(), "cp", "-a", filepath.Join(t.dir, "data"), s.dir).CombinedOutput()
	assert.NoError(tb, err, "copy a new database: %s", said)
	return s
}

// startServer starts the server, and waits until it answers at an address. end ends it with the
// test.
func (s *sqlServer) startServer(tb testing.TB, c *exec.Cmd, driver, address string, end func()) {
	tb.Helper()
	s.process.Start(tb, c)
	tb.Cleanup(end)
	db, err := sql.Open(driver, address)
	assert.NoError(tb, err, "open")
	defer db.Close()
	s.process.Await(tb, filepath.Base(c.Path), func() bool { return db.PingContext(tb.Context()) == nil })
}
