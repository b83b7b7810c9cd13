package servers

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

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
	server := newSQLServer(tb, servertest.MySQLAccount(tb), &newMySQL, servertest.NewMySQL)
	s := &MySQL{Port: server.port, Args: args, server: server}
	s.Start(tb)
	return s
}

// Start starts the server, which keeps its data and its port, and waits until it answers.
func (s *MySQL) Start(tb testing.TB) {
	tb.Helper()
	c := servertest.MySQLCommand(tb, s.server.dir, s.Port, s.server.as, s.Args...)
	s.server.startServer(tb, c, "mysql", s.DSN(), s.Kill)
}

// DSN returns the server's address for its driver, followed by parameters.
func (s *MySQL) DSN(parameters ...string) string {
	return s.At(net.JoinHostPort("127.0.0.1", s.Port), parameters...)
}

// otherDatabase returns another database of the server.
func (s *MySQL) otherDatabase(name string) string {
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
