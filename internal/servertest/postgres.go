package servertest

import (
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// Postgres is a test's PostgreSQL server, with one user and no password.
type Postgres struct {
	// URL is the URL of its database "postgres".
	URL string

	process Process
}

// StartPostgres creates a database cluster, and runs a server on it until the test ends. The server
// does not wait for the disk.
func StartPostgres(tb testing.TB, args ...string) *Postgres {
	tb.Helper()
	as, p := PostgresAccount(tb), port(tb)
	dir := Folder(tb, as)
	NewPostgres(tb, dir, as)
	s := &Postgres{URL: "postgres://retrysafe@127.0.0.1:" + p + "/postgres?sslmode=disable"}
	s.process.Start(tb, PostgresCommand(tb, dir, p, as, args...))
	tb.Cleanup(func() { s.process.End(syscall.SIGINT) }) // it ends its sessions before itself
	ready := postgresProgram(tb, "pg_isready")
	s.process.Await(tb, "postgres", func() bool { return exec.Command(ready, "-q", "-h", "127.0.0.1", "-p", p).Run() == nil })
	return s
}

// Kill ends the server at once: it ends its sessions, and writes nothing.
func (s *Postgres) Kill() { s.process.End(syscall.SIGQUIT) }

// PostgresAccount returns the account that runs PostgreSQL; see [Account].
func PostgresAccount(tb testing.TB) *syscall.Credential {
	tb.Helper()
	return Account(tb, "postgres", "postgresql")
}

// NewPostgres creates a database cluster in dir/data, with the user retrysafe.
func NewPostgres(tb testing.TB, dir string, as *syscall.Credential) {
	tb.Helper()
	c := exec.Command(postgresProgram(tb, "initdb"), "-D", filepath.Join(dir, "data"), "-U", "retrysafe", "-A", "trust",
		"-E", "UTF8", "--locale=C.UTF-8", "-N", "--wal-segsize=1")
	c.Dir, c.SysProcAttr = dir, &syscall.SysProcAttr{Credential: as}
	said, err := c.CombinedOutput()
	assert.NoError(tb, err, "initdb: %s", said)
}

// PostgresCommand returns the command that runs a server on dir/data and a port. It trades the
// safety of its data for speed; args may say otherwise.
func PostgresCommand(tb testing.TB, dir, port string, as *syscall.Credential, args ...string) *exec.Cmd {
	tb.Helper()
	c := exec.Command(postgresProgram(tb, "postgres"), append([]string{
		"-D", filepath.Join(dir, "data"), "-p", port, "-k", dir, "-c", "listen_addresses=127.0.0.1", "-c", "max_connections=200",
		"-c", "shared_buffers=32MB", "-c", "fsync=off", "-c", "full_page_writes=off",
		// these cost a process for each database, and a compiler in each session
		"-c", "autovacuum=off", "-c", "jit=off",
	}, args...)...)
	c.Dir, c.SysProcAttr = dir, &syscall.SysProcAttr{Credential: as}
	return c
}

// postgresProgram returns a program of the newest version, whose folder is not on the PATH of
// Debian, or else the one on the PATH.
func postgresProgram(tb testing.TB, name string) string {
	tb.Helper()
	folders, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	slices.Sort(folders)
	slices.Reverse(folders)
	return Program(tb, name, "postgresql", folders...)
}
