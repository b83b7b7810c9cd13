package servers

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/servertest"
)

// MySQL is a MariaDB for one test, on loopback.
type MySQL struct {
	Port   string
	Args   []string // for the next Start
	server *sqlServer
}

var newMySQL template

// StartMySQL creates a data directory and runs a server on it until the test ends.
func StartMySQL(tb testing.TB, args ...string) *MySQL {
	tb.Helper()
	server := newSQLServer(tb, servertest.Account(tb, "mysql", "mariadb-server"), &newMySQL, createMySQL)
	s := &MySQL{Port: server.port, Args: args, server: server}
	s.Start(tb)
	return s
}

// mysqlLog is the size of the redo log, which must be the same for a copy.
const mysqlLog = "--innodb-log-file-size=16M"

// createMySQL creates a data directory with the database retrysafe.
func createMySQL(tb testing.TB, dir string, as *syscall.Credential) {
	tb.Helper()
	c := exec.CommandContext(tb.Context(), mysqlProgram(tb, "mariadb-install-db"), "--no-defaults", "--datadir="+filepath.Join(dir, "data"),
		// A server that starts removes the temporary tables of others that use the same folder.
		"--tmpdir="+dir,
		"--skip-test-db", "--auth-root-authentication-method=normal", "--skip-name-resolve", mysqlLog)
	c.SysProcAttr, c.Dir = &syscall.SysProcAttr{Credential: as}, dir
	said, err := c.CombinedOutput()
	assert.NoError(tb, err, "mariadb-install-db: %s", said)
	database := filepath.Join(dir, "data", "retrysafe")
	assert.NoError(tb, os.Mkdir(database, 0o700), "a database")
	servertest.Give(tb, database, as)
}

func mysqlProgram(tb testing.TB, name string) string {
	tb.Helper()
	return servertest.Program(tb, name, "mariadb-server", "/usr/bin", "/usr/sbin")
}

// Start starts the server, which keeps its data and its port, and waits until it answers.
func (s *MySQL) Start(tb testing.TB) {
	tb.Helper()
	dir := s.server.dir
	c := exec.Command(mysqlProgram(tb, "mariadbd"), append([]string{
		"--no-defaults", "--datadir=" + filepath.Join(dir, "data"), "--tmpdir=" + dir, "--socket=" + filepath.Join(dir, "s"),
		"--pid-file=" + filepath.Join(dir, "pid"), "--bind-address=127.0.0.1", "--port=" + s.Port, "--skip-name-resolve", "--skip-log-bin",
		"--innodb-buffer-pool-size=32M", mysqlLog, "--innodb-flush-log-at-trx-commit=0", "--innodb-flush-method=nosync", "--performance-schema=OFF",
	}, s.Args...)...)
	c.Dir, c.SysProcAttr = dir, &syscall.SysProcAttr{Credential: s.server.as}
	s.server.run(tb, c, "mysql", s.DSN(), s.Kill)
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
	pid := s.server.process.Pid()
	_ = syscall.Kill(pid, syscall.SIGSTOP)
	for stopped := false; !stopped; { // each of its threads
		all, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		stopped = !slices.ContainsFunc(all, func(path string) bool {
			stat, err := os.ReadFile(path)
			return err == nil && !bytes.Contains(stat, []byte(") T "))
		})
	}
	return func() { _ = syscall.Kill(pid, syscall.SIGCONT) }
}

// Kill ends the server as a crash does.
func (s *MySQL) Kill() { s.server.process.End(syscall.SIGKILL) }

// Stop shuts the server down cleanly.
func (s *MySQL) Stop(tb testing.TB) {
	tb.Helper()
	s.server.process.Stop(tb, syscall.SIGTERM)
}
