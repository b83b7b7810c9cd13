package servertest

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// MySQL is a test's MariaDB server, whose root has no password.
type MySQL struct {
	// Addr is host:port. The server has an empty database "retrysafe".
	Addr string

	process Process
}

// StartMySQL creates a data directory, and runs a server on it until the test ends. The server does
// not wait for the disk.
func StartMySQL(tb testing.TB, args ...string) *MySQL {
	tb.Helper()
	as, p := MySQLAccount(tb), freePort(tb)
	dir := Folder(tb, as)
	NewMySQL(tb, dir, as)
	s := &MySQL{Addr: net.JoinHostPort("127.0.0.1", p)}
	s.process.Start(tb, MySQLCommand(tb, dir, p, as, args...))
	tb.Cleanup(func() { s.process.End(syscall.SIGKILL) })
	s.process.Await(tb, "mariadbd", func() bool { return isMySQL(s.Addr) })
	return s
}

// DSN returns the address for Go's driver.
func (s *MySQL) DSN() string { return "root@tcp(" + s.Addr + ")/retrysafe" }

// isMySQL reports whether a server accepts a connection and says which version it has.
func isMySQL(addr string) bool {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return false
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Second))
	n, _ := c.Read(make([]byte, 16))
	return n > 0
}

// MySQLAccount returns the account that runs MariaDB; see [Account].
func MySQLAccount(tb testing.TB) *syscall.Credential {
	tb.Helper()
	return Account(tb, "mysql", "mariadb-server")
}

// mysqlLog is the size of the redo log, which must be the same for a copy.
const mysqlLog = "--innodb-log-file-size=16M"

// NewMySQL creates a data directory in dir/data with the database retrysafe.
func NewMySQL(tb testing.TB, dir string, as *syscall.Credential) {
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
	Give(tb, database, as)
}

// MySQLCommand returns the command that runs a server on dir/data and a port. It trades the safety
// of its data for speed; args may say otherwise.
func MySQLCommand(tb testing.TB, dir, port string, as *syscall.Credential, args ...string) *exec.Cmd {
	tb.Helper()
	c := exec.Command(mysqlProgram(tb, "mariadbd"), append([]string{
		"--no-defaults", "--datadir=" + filepath.Join(dir, "data"), "--tmpdir=" + dir, "--socket=" + filepath.Join(dir, "s"),
		"--pid-file=" + filepath.Join(dir, "pid"), "--bind-address=127.0.0.1", "--port=" + port, "--skip-name-resolve", "--skip-log-bin",
		"--innodb-buffer-pool-size=32M", mysqlLog, "--innodb-flush-log-at-trx-commit=0", "--innodb-flush-method=nosync", "--performance-schema=OFF",
	}, args...)...)
	c.Dir, c.SysProcAttr = dir, &syscall.SysProcAttr{Credential: as}
	return c
}

func mysqlProgram(tb testing.TB, name string) string {
	tb.Helper()
	return Program(tb, name, "mariadb-server", "/usr/bin", "/usr/sbin")
}
