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

// MySQL is a MariaDB for one test, on loopback.
type MySQL struct {
	dir, Port string
	Args      []string
	cmd       *exec.Cmd
	said      bytes.Buffer
}

// mysqlUser returns the user that runs the server, which refuses root: the one that the package has
// created.
func mysqlUser(tb testing.TB) *syscall.Credential {
	tb.Helper()
	if os.Getuid() != 0 {
		return nil
	}
	u, err := user.Lookup("mysql")
	assert.NoError(tb, err, "the user mysql: apt-get install -y mariadb-server")
	uid, _ := strconv.ParseUint(u.Uid, 10, 32)
	gid, _ := strconv.ParseUint(u.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

// StartMySQL creates a data directory and runs a server on it until the test ends.
func StartMySQL(tb testing.TB, args ...string) *MySQL {
	tb.Helper()
	newMySQL.Do(func() { newMySQLDir = mysqlInit(tb) })
	if newMySQLDir == "" {
		tb.Fatal("no new databases could be made; another test says why")
	}
	dir := mysqlFolder(tb)
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	said, err := exec.CommandContext(tb.Context(), "cp", "-a", filepath.Join(newMySQLDir, "data"), dir).CombinedOutput()
	assert.NoError(tb, err, "copy a new database: %s", said)
	s := &MySQL{dir: dir, Port: FreePort(tb), Args: args}
	s.Start(tb)
	return s
}

// A new data directory is created once and copied, which takes a fraction of the time. Main
// removes it.
var (
	newMySQL    sync.Once
	newMySQLDir string
)

// mysqlLog is the size of the redo log, which must be the same for a copy.
const mysqlLog = "--innodb-log-file-size=16M"

func mysqlInit(tb testing.TB) (dir string) {
	tb.Helper()
	dir = mysqlFolder(tb)
	c := exec.CommandContext(tb.Context(), mysqlProgram(tb, "mariadb-install-db"), "--no-defaults", "--datadir="+filepath.Join(dir, "data"),
		// A server that starts removes the temporary tables of others that use the same folder.
		"--tmpdir="+dir,
		"--skip-test-db", "--auth-root-authentication-method=normal", "--skip-name-resolve", mysqlLog)
	c.SysProcAttr, c.Dir = &syscall.SysProcAttr{Credential: mysqlUser(tb)}, dir
	said, err := c.CombinedOutput()
	assert.NoError(tb, err, "mariadb-install-db: %s", said)
	assert.NoError(tb, os.Mkdir(filepath.Join(dir, "data", "retrysafe"), 0o700), "a database")
	if as := mysqlUser(tb); as != nil {
		assert.NoError(tb, os.Chown(filepath.Join(dir, "data", "retrysafe"), int(as.Uid), int(as.Gid)), "chown")
	}
	return dir
}

func mysqlProgram(tb testing.TB, name string) string {
	tb.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		path, err = exec.LookPath("/usr/sbin/" + name)
	}
	assert.NoError(tb, err, "%s is not installed: apt-get install -y mariadb-server", name)
	return path
}

// mysqlFolder returns a folder that the server's user can use: those of tests are closed to other
// users.
func mysqlFolder(tb testing.TB) string {
	tb.Helper()
	dir, err := os.MkdirTemp("", "retrysafe-mysql")
	assert.NoError(tb, err, "a folder")
	if as := mysqlUser(tb); as != nil {
		assert.NoError(tb, os.Chown(dir, int(as.Uid), int(as.Gid)), "chown")
	}
	return dir
}

// Start starts the server, which keeps its data and its port, and waits until it answers.
func (s *MySQL) Start(tb testing.TB) {
	tb.Helper()
	s.cmd = exec.CommandContext(context.Background(), mysqlProgram(tb, "mariadbd"), append([]string{
		"--no-defaults", "--datadir=" + filepath.Join(s.dir, "data"), "--tmpdir=" + s.dir, "--socket=" + filepath.Join(s.dir, "s"),
		"--pid-file=" + filepath.Join(s.dir, "pid"), "--bind-address=127.0.0.1", "--port=" + s.Port, "--skip-name-resolve", "--skip-log-bin",
		"--innodb-buffer-pool-size=32M", mysqlLog, "--innodb-flush-log-at-trx-commit=0", "--innodb-flush-method=nosync", "--performance-schema=OFF",
	}, s.Args...)...)
	s.cmd.Dir, s.cmd.Stdout, s.cmd.Stderr = s.dir, &s.said, &s.said
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Credential: mysqlUser(tb)}
	assert.NoError(tb, s.cmd.Start(), "start mariadbd")
	tb.Cleanup(s.Kill)
	db, err := sql.Open("mysql", s.DSN())
	assert.NoError(tb, err, "open")
	defer db.Close()
	for end := time.Now().Add(waits.Patience); db.PingContext(tb.Context()) != nil; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			s.Kill()
			tb.Fatalf("mariadbd does not answer on port %s:\n%s", s.Port, s.said.String())
		}
	}
}

// DSN returns the server's address for its driver, followed by parameters.
func (s *MySQL) DSN(parameters ...string) string {
	return s.At(net.JoinHostPort("127.0.0.1", s.Port), parameters...)
}

// database returns another database of the server.
func (s *MySQL) database(name string) string {
	return strings.Replace(s.DSN(), "/retrysafe?", "/"+name+"?", 1)
}

// At returns the same database at another address.
func (s *MySQL) At(addr string, parameters ...string) string {
	return "root@tcp(" + addr + ")/retrysafe?" + strings.Join(append([]string{"interpolateParams=true"}, parameters...), "&")
}

// Stall stops the server: it accepts requests and answers none.
func (s *MySQL) Stall() (resume func()) {
	_ = s.cmd.Process.Signal(syscall.SIGSTOP)
	for stopped := false; !stopped; { // each of its threads
		all, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", s.cmd.Process.Pid))
		stopped = !slices.ContainsFunc(all, func(path string) bool {
			stat, err := os.ReadFile(path)
			return err == nil && !bytes.Contains(stat, []byte(") T "))
		})
	}
	return func() { _ = s.cmd.Process.Signal(syscall.SIGCONT) }
}

// Kill ends the server as a crash does.
func (s *MySQL) Kill() {
	if s.cmd.ProcessState == nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
	}
}

// Stop shuts the server down cleanly.
func (s *MySQL) Stop(tb testing.TB) {
	tb.Helper()
	assert.NoError(tb, s.cmd.Process.Signal(syscall.SIGTERM), "stop mariadbd")
	assert.NoError(tb, s.cmd.Wait(), "the end of mariadbd: %s", &s.said)
}
