package servers

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/integration/internal/waits"
	"github.com/retrysafe/retrysafe/internal/assert"
)

// Postgres is a server for one test, on loopback.
type Postgres struct {
	Dir, Port string
	Args      []string
	cmd       *exec.Cmd
	said      bytes.Buffer
}

// postgresProgram returns a program of Debian's newest version, whose directory is not in PATH, or
// else the one in PATH.
func postgresProgram(tb testing.TB, name string) string {
	tb.Helper()
	if found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + name); len(found) > 0 {
		return slices.Max(found)
	}
	path, err := exec.LookPath(name)
	assert.NoError(tb, err, "%s is not installed: apt-get install -y postgresql", name)
	return path
}

// PostgresUser returns the user that runs the server, which refuses root: the one that the package
// has created.
func PostgresUser(tb testing.TB) *syscall.Credential {
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

// StartPostgres creates a data directory and runs a server on it until the test ends.
func StartPostgres(tb testing.TB, args ...string) *Postgres {
	tb.Helper()
	newPostgres.Do(func() { newPostgresDir = postgresInit(tb) })
	dir := PostgresFolder(tb)
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	said, err := exec.CommandContext(tb.Context(), "cp", "-a", filepath.Join(newPostgresDir, "data"), dir).CombinedOutput()
	assert.NoError(tb, err, "copy a new database: %s", said)
	s := &Postgres{Dir: dir, Port: FreePort(tb), Args: args}
	s.Start(tb)
	return s
}

// A new data directory is created once and copied, which takes a tenth of the time. Main removes
// it.
var (
	newPostgres    sync.Once
	newPostgresDir string
)

func postgresInit(tb testing.TB) (dir string) {
	tb.Helper()
	dir = PostgresFolder(tb)
	c := exec.CommandContext(tb.Context(), postgresProgram(tb, "initdb"), "-D", filepath.Join(dir, "data"), "-U", "retrysafe", "-A", "trust",
		"-E", "UTF8", "--locale=C.UTF-8", "-N", "--wal-segsize=1")
	c.SysProcAttr, c.Dir = &syscall.SysProcAttr{Credential: PostgresUser(tb)}, dir
	said, err := c.CombinedOutput()
	assert.NoError(tb, err, "initdb: %s", said)
	return dir
}

// PostgresFolder returns a folder that the server's user can use: those of tests are closed to
// other users.
func PostgresFolder(tb testing.TB) string {
	tb.Helper()
	dir, err := os.MkdirTemp("", "retrysafe-postgres")
	assert.NoError(tb, err, "a folder")
	if as := PostgresUser(tb); as != nil {
		assert.NoError(tb, os.Chown(dir, int(as.Uid), int(as.Gid)), "chown")
	}
	return dir
}

// Start starts the server, which keeps its data and its port, and waits until it answers.
func (s *Postgres) Start(tb testing.TB) {
	tb.Helper()
	s.cmd = exec.CommandContext(context.Background(), postgresProgram(tb, "postgres"), append([]string{
		"-D", filepath.Join(s.Dir, "data"), "-p", s.Port, "-k", s.Dir, "-c", "listen_addresses=127.0.0.1", "-c", "max_connections=200",
		"-c", "shared_buffers=32MB", "-c", "fsync=off", "-c", "full_page_writes=off",
		// These would cost a process for each database, and a compiler in each session.
		"-c", "autovacuum=off", "-c", "jit=off",
	}, s.Args...)...)
	s.cmd.Dir, s.cmd.Stdout, s.cmd.Stderr = s.Dir, &s.said, &s.said
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Credential: PostgresUser(tb)}
	assert.NoError(tb, s.cmd.Start(), "start postgres")
	tb.Cleanup(s.Kill)
	db, err := sql.Open("pgx", s.URL())
	assert.NoError(tb, err, "open")
	defer db.Close()
	for end := time.Now().Add(waits.Patience); db.PingContext(tb.Context()) != nil; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			tb.Fatalf("postgres does not answer on port %s:\n%s", s.Port, s.said.String())
		}
	}
}

// URL returns the server's address, followed by session parameters.
func (s *Postgres) URL(parameters ...string) string {
	return s.At(net.JoinHostPort("127.0.0.1", s.Port), parameters...)
}

// database returns another database of the server.
func (s *Postgres) database(name string) string {
	return strings.Replace(s.URL(), "/postgres?", "/"+name+"?", 1)
}

// At returns the same database at another address.
func (s *Postgres) At(addr string, parameters ...string) string {
	return "postgres://retrysafe@" + addr + "/postgres?" + strings.Join(append([]string{"sslmode=disable"}, parameters...), "&")
}

// signal sends a signal to the server and to each of its connection processes.
func (s *Postgres) signal(sig syscall.Signal) {
	pid := s.cmd.Process.Pid
	_ = syscall.Kill(pid, sig) // first, so that it starts no more of them
	children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	for _, child := range strings.Fields(string(children)) {
		if n, err := strconv.Atoi(child); err == nil {
			_ = syscall.Kill(n, sig)
		}
	}
}

// Stall stops the processes: they accept requests and answer none.
func (s *Postgres) Stall() (resume func()) {
	s.signal(syscall.SIGSTOP)
	return func() { s.signal(syscall.SIGCONT) }
}

// Kill ends the server as a crash does.
func (s *Postgres) Kill() {
	if s.cmd.ProcessState == nil {
		s.signal(syscall.SIGCONT)
		s.signal(syscall.SIGKILL)
		_ = s.cmd.Wait()
	}
}

// Stop shuts the server down, and closes its connections at once.
func (s *Postgres) Stop(tb testing.TB) {
	tb.Helper()
	assert.NoError(tb, s.cmd.Process.Signal(syscall.SIGINT), "stop postgres")
	assert.NoError(tb, s.cmd.Wait(), "the end of postgres: %s", &s.said)
}
