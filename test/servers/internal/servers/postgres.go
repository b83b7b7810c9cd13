package servers

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/servertest"
)

// Postgres is a server for one test, on loopback.
type Postgres struct {
	Port    string
	Args    []string // for the next Start
	version *PostgresVersion
	server  *sqlServer
}

// StartPostgres runs a server of the first version; see PostgresVersion.Start.
func StartPostgres(tb testing.TB, args ...string) *Postgres {
	tb.Helper()
	return PostgresVersions[0].Start(tb, args...)
}

// Start creates a data directory and runs a server on it until the test ends.
func (v *PostgresVersion) Start(tb testing.TB, args ...string) *Postgres {
	tb.Helper()
	server := newSQLServer(tb, servertest.PostgresAccount(tb), &v.fresh, v.Create)
	s := &Postgres{Port: server.port, Args: args, version: v, server: server}
	s.Start(tb)
	return s
}

// Start starts the server, which keeps its data and its port, and waits until it answers.
func (s *Postgres) Start(tb testing.TB) {
	tb.Helper()
	s.server.startServer(tb, s.version.Command(tb, s.server.dir, s.Port, s.server.as, s.Args...), "pgx", s.URL(), s.endServer)
}

// Standby makes the server a standby, without a primary, from its next start.
func (s *Postgres) Standby(tb testing.TB) {
	tb.Helper()
	file := filepath.Join(s.server.dir, "data", "standby.signal")
	assert.NoError(tb, os.WriteFile(file, nil, 0o600), "standby.signal")
	servertest.Give(tb, file, s.server.as)
}

// URL returns the server's address, followed by session parameters.
func (s *Postgres) URL(parameters ...string) string {
	return s.At(net.JoinHostPort("127.0.0.1", s.Port), parameters...)
}

// otherDatabase returns another database of the server.
func (s *Postgres) otherDatabase(name string) string {
	return strings.Replace(s.URL(), "/postgres?", "/"+name+"?", 1)
}

// At returns the same database at another address.
func (s *Postgres) At(addr string, parameters ...string) string {
	return "postgres://retrysafe@" + addr + "/postgres?" + strings.Join(append([]string{"sslmode=disable"}, parameters...), "&")
}

// signalProcesses sends a signal to the server and to each of its connection processes.
func (s *Postgres) signalProcesses(sig syscall.Signal) {
	pid := s.server.process.Pid()
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
	s.signalProcesses(syscall.SIGSTOP)
	return func() { s.signalProcesses(syscall.SIGCONT) }
}

// Kill ends the server as a crash does.
func (s *Postgres) Kill() {
	if s.server.process.Running() {
		s.signalProcesses(syscall.SIGCONT)
		s.signalProcesses(syscall.SIGKILL)
		s.server.process.End(syscall.SIGKILL)
	}
}

// endServer kills the server, since its data is not needed any more.
func (s *Postgres) endServer() {
	s.Kill()
	servertest.RemovePostgresMemory(s.server.dir)
}

// Stop shuts the server down, and closes its connections at once.
func (s *Postgres) Stop(tb testing.TB) {
	tb.Helper()
	s.server.process.Stop(tb, syscall.SIGINT)
}
