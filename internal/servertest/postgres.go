package servertest

import (
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// Postgres is a test's PostgreSQL server, with one user and no password.
type Postgres struct {
	// URL is the URL of its database "postgres".
	URL string

	process
}

// StartPostgres creates a database cluster, and runs a server on it until the test ends. The server
// does not wait for the disk.
func StartPostgres(tb testing.TB, args ...string) *Postgres {
	tb.Helper()
	bin, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	slices.Sort(bin)
	slices.Reverse(bin) // the newest first
	dir, p, as := folder(tb), port(tb), postgresUser(tb)
	if as != nil {
		assert.NoError(tb, os.Chown(dir, int(as.Uid), int(as.Gid)), "chown")
	}
	command := func(name string, args ...string) *exec.Cmd {
		c := exec.Command(program(tb, name, "postgresql", bin...), args...)
		c.Dir, c.SysProcAttr = dir, &syscall.SysProcAttr{Credential: as}
		return c
	}
	said, err := command("initdb", "-D", filepath.Join(dir, "data"), "-U", "retrysafe", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "-N").CombinedOutput()
	assert.NoError(tb, err, "initdb: %s", said)
	s := &Postgres{URL: "postgres://retrysafe@127.0.0.1:" + p + "/postgres?sslmode=disable"}
	s.start(tb, command("postgres", append([]string{
		"-D", filepath.Join(dir, "data"), "-p", p, "-k", dir, "-c", "listen_addresses=127.0.0.1", "-c", "max_connections=200",
		"-c", "shared_buffers=32MB", "-c", "fsync=off", "-c", "full_page_writes=off",
		// these cost a process for each database, and a compiler in each session
		"-c", "autovacuum=off", "-c", "jit=off",
	}, args...)...))
	tb.Cleanup(func() { s.kill(syscall.SIGINT) }) // it ends its sessions before itself
	s.await(tb, "postgres", func() bool { return command("pg_isready", "-q", "-h", "127.0.0.1", "-p", p).Run() == nil })
	return s
}

// postgresUser returns the user that runs the server, since the server refuses root: the one that
// the package has created.
func postgresUser(tb testing.TB) *syscall.Credential {
	tb.Helper()
	if os.Getuid() != 0 {
		return nil
	}
	u, err := user.Lookup("postgres")
	assert.NoError(tb, err, "the user postgres")
	uid, _ := strconv.ParseUint(u.Uid, 10, 32)
	gid, _ := strconv.ParseUint(u.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}
