package integration_test

import (
	"bytes"
	"database/sql"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/sqlstore"
)

// postgresServer is a server for one test, on loopback.
type postgresServer struct {
	dir, port string
	args      []string
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

// postgresUser returns the user that runs the server, which refuses root: the one that the package
// has created.
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

// startPostgres creates a data directory and runs a server on it until the test ends.
func startPostgres(tb testing.TB, args ...string) *postgresServer {
	tb.Helper()
	newPostgres.Do(func() { newPostgresDir = postgresInit(tb) })
	dir := postgresFolder(tb)
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	said, err := exec.CommandContext(tb.Context(), "cp", "-a", filepath.Join(newPostgresDir, "data"), dir).CombinedOutput()
	assert.NoError(tb, err, "copy a new database: %s", said)
	s := &postgresServer{dir: dir, port: freePort(tb), args: args}
	s.start(tb)
	return s
}

// A new data directory is created once and copied, which takes a tenth of the time. TestMain
// removes it.
var (
	newPostgres    sync.Once
	newPostgresDir string
)

func postgresInit(tb testing.TB) (dir string) {
	tb.Helper()
	dir = postgresFolder(tb)
	c := exec.CommandContext(tb.Context(), postgresProgram(tb, "initdb"), "-D", filepath.Join(dir, "data"), "-U", "retrysafe", "-A", "trust",
		"-E", "UTF8", "--locale=C.UTF-8", "-N", "--wal-segsize=1")
	c.SysProcAttr, c.Dir = &syscall.SysProcAttr{Credential: postgresUser(tb)}, dir
	said, err := c.CombinedOutput()
	assert.NoError(tb, err, "initdb: %s", said)
	return dir
}

// postgresFolder returns a folder that the server's user can use: those of tests are closed to
// other users.
func postgresFolder(tb testing.TB) string {
	tb.Helper()
	dir, err := os.MkdirTemp("", "retrysafe-postgres")
	assert.NoError(tb, err, "a folder")
	if as := postgresUser(tb); as != nil {
		assert.NoError(tb, os.Chown(dir, int(as.Uid), int(as.Gid)), "chown")
	}
	return dir
}

func (s *postgresServer) start(tb testing.TB) {
	tb.Helper()
	s.cmd = exec.Command(postgresProgram(tb, "postgres"), append([]string{
		"-D", filepath.Join(s.dir, "data"), "-p", s.port, "-k", s.dir, "-c", "listen_addresses=127.0.0.1", "-c", "max_connections=200",
		"-c", "shared_buffers=32MB", "-c", "fsync=off", "-c", "full_page_writes=off",
		// These would cost a process for each database, and a compiler in each session.
		"-c", "autovacuum=off", "-c", "jit=off",
	}, s.args...)...)
	s.cmd.Dir, s.cmd.Stdout, s.cmd.Stderr = s.dir, &s.said, &s.said
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Credential: postgresUser(tb)}
	assert.NoError(tb, s.cmd.Start(), "start postgres")
	tb.Cleanup(s.kill)
	db, err := sql.Open("pgx", s.url())
	assert.NoError(tb, err, "open")
	defer db.Close()
	for end := time.Now().Add(patience); db.PingContext(tb.Context()) != nil; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			tb.Fatalf("postgres does not answer on port %s:\n%s", s.port, s.said.String())
		}
	}
}

// url returns the server's address, followed by session parameters.
func (s *postgresServer) url(parameters ...string) string {
	return s.at(net.JoinHostPort("127.0.0.1", s.port), parameters...)
}

// database returns another database of the server.
func (s *postgresServer) database(name string) string {
	return strings.Replace(s.url(), "/postgres?", "/"+name+"?", 1)
}

// at returns the same database at another address.
func (s *postgresServer) at(addr string, parameters ...string) string {
	return "postgres://retrysafe@" + addr + "/postgres?" + strings.Join(append([]string{"sslmode=disable"}, parameters...), "&")
}

// signal sends a signal to the server and to each of its connection processes.
func (s *postgresServer) signal(sig syscall.Signal) {
	pid := s.cmd.Process.Pid
	_ = syscall.Kill(pid, sig) // first, so that it starts no more of them
	children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	for _, child := range strings.Fields(string(children)) {
		if n, err := strconv.Atoi(child); err == nil {
			_ = syscall.Kill(n, sig)
		}
	}
}

// stall stops the processes: they accept requests and answer none.
func (s *postgresServer) stall() (resume func()) {
	s.signal(syscall.SIGSTOP)
	return func() { s.signal(syscall.SIGCONT) }
}

// kill ends the server as a crash does.
func (s *postgresServer) kill() {
	if s.cmd.ProcessState == nil {
		s.signal(syscall.SIGCONT)
		s.signal(syscall.SIGKILL)
		_ = s.cmd.Wait()
	}
}

// stop shuts the server down, and closes its connections at once.
func (s *postgresServer) stop(tb testing.TB) {
	tb.Helper()
	assert.NoError(tb, s.cmd.Process.Signal(syscall.SIGINT), "stop postgres")
	assert.NoError(tb, s.cmd.Wait(), "the end of postgres: %s", &s.said)
}

// tables counts the stores of tests that share a server.
var tables atomic.Int64

// newTable returns a name that no other test uses.
func newTable() string { return fmt.Sprintf("records_%d", tables.Add(1)) }

// postgresOn returns a store that is ready, on a separate pool.
func postgresOn(tb testing.TB, url string, o *sqlstore.Options) (*sqlstore.Store, *sql.DB) {
	tb.Helper()
	db, err := sql.Open("pgx", url)
	assert.NoError(tb, err, "open the database")
	db.SetMaxOpenConns(10)
	db.SetMaxIdleConns(10)
	tb.Cleanup(func() { _ = db.Close() })
	var own sqlstore.Options
	if o != nil {
		own = *o
	}
	if own.Logger == nil {
		own.Logger = slog.New(slog.DiscardHandler)
	}
	if own.LockWait == 0 {
		own.LockWait = patience
	}
	s, err := sqlstore.New(db, sqlstore.PostgreSQL, &own)
	assert.NoError(tb, err, "a store on PostgreSQL")
	patient := own
	patient.LockWait = patience
	first, err := sqlstore.New(db, sqlstore.PostgreSQL, &patient)
	assert.NoError(tb, err, "a store that waits")
	assert.NoError(tb, first.Migrate(tb.Context()), "Migrate")
	return s, db
}
