package servertest

import (
	"encoding/binary"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// PostgresServer is a version of PostgreSQL that tests run on.
type PostgresServer struct{ row }

// PostgresServers returns the versions that tests run on; the first one is for tests that need only
// one. RETRYSAFE_POSTGRES chooses another one for all tests; see servers/tested.list.
func PostgresServers() (all []PostgresServer) {
	for _, r := range chosenRows("RETRYSAFE_POSTGRES", "PostgreSQL") {
		all = append(all, PostgresServer{r})
	}
	return all
}

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
	server, as, p := PostgresServers()[0], PostgresAccount(tb), freePort(tb)
	dir := Folder(tb, as)
	server.Create(tb, dir, as)
	s := &Postgres{URL: "postgres://retrysafe@127.0.0.1:" + p + "/postgres?sslmode=disable"}
	s.process.Start(tb, server.Command(tb, dir, p, as, args...))
	tb.Cleanup(func() { s.process.End(syscall.SIGINT) }) // it ends its sessions before itself
	s.process.Await(tb, "postgres", func() bool { return admitsSession(net.JoinHostPort("127.0.0.1", p)) })
	return s
}

// admitsSession reports whether PostgreSQL at addr starts a session. Before it is ready it answers
// with an error. (Of its programs, only some versions here have pg_isready.)
func admitsSession(addr string) bool {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return false
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	const version3 = 3 << 16
	said := binary.BigEndian.AppendUint32(nil, version3)
	said = append(said, "user\x00retrysafe\x00database\x00postgres\x00\x00"...)
	_, _ = c.Write(append(binary.BigEndian.AppendUint32(nil, uint32(4+len(said))), said...))
	answer := make([]byte, 1)
	_, err = c.Read(answer)
	_, _ = c.Write([]byte("X\x00\x00\x00\x04")) // ends the session
	return err == nil && answer[0] == 'R'       // it authenticates; 'E' would be an error
}

// Kill ends the server at once: it ends its sessions, and writes nothing.
func (s *Postgres) Kill() { s.process.End(syscall.SIGQUIT) }

// PostgresAccount returns the account that runs PostgreSQL; see [Account].
func PostgresAccount(tb testing.TB) *syscall.Credential {
	tb.Helper()
	return Account(tb, "postgres", "postgresql")
}

// Create creates a database cluster in dir/data, with the user retrysafe.
func (s PostgresServer) Create(tb testing.TB, dir string, as *syscall.Credential) {
	tb.Helper()
	c := exec.Command(s.program(tb, "initdb"), "-D", filepath.Join(dir, "data"), "-U", "retrysafe", "-A", "trust",
		"-E", "UTF8", "--locale=C.UTF-8", "-N", "--wal-segsize=1")
	c.Dir, c.SysProcAttr = dir, &syscall.SysProcAttr{Credential: as}
	said, err := c.CombinedOutput()
	assert.NoError(tb, err, "initdb: %s", said)
}

// Command returns the command that runs a server on dir/data and a port. It trades the safety of
// its data for speed; args may say otherwise.
func (s PostgresServer) Command(tb testing.TB, dir, port string, as *syscall.Credential, args ...string) *exec.Cmd {
	tb.Helper()
	c := exec.Command(s.program(tb, "postgres"), append([]string{
		"-D", filepath.Join(dir, "data"), "-p", port, "-k", dir, "-c", "listen_addresses=127.0.0.1", "-c", "max_connections=200",
		"-c", "shared_buffers=32MB", "-c", "fsync=off", "-c", "full_page_writes=off",
		// Shared memory in the folder is removed with it, also after a kill.
		"-c", "dynamic_shared_memory_type=mmap",
		// these cost a process for each database, and a compiler in each session
		"-c", "autovacuum=off", "-c", "jit=off",
	}, args...)...)
	// With the tests it ends by a signal that lets it remove its shared memory.
	c.Dir, c.SysProcAttr = dir, &syscall.SysProcAttr{Credential: as, Pdeathsig: syscall.SIGQUIT}
	return c
}

// postgresFile is the file that a running server keeps in its folder.
const postgresFile = "data/postmaster.pid"

// RemovePostgresMemory removes the shared memory that a killed server on dir/data has left. Its
// next start would remove it too, but a system has room for 4,096 of them, and they stay until it
// starts again.
func RemovePostgresMemory(dir string) {
	if id := PostgresMemory(dir); id != "" {
		_ = exec.Command("ipcrm", "-m", id).Run()
		_ = os.Remove(filepath.Join(dir, postgresFile))
	}
}

// PostgresMemory returns the number of the shared memory of the server on dir/data: the second word
// of line 7 of its file, which it removes when it shuts down. "": the server is shut down.
// https://www.postgresql.org/docs/current/storage-file-layout.html
func PostgresMemory(dir string) string {
	text, _ := os.ReadFile(filepath.Join(dir, postgresFile))
	lines := strings.Split(string(text), "\n")
	if len(lines) < 7 {
		return ""
	}
	_, id, _ := strings.Cut(strings.TrimSpace(lines[6]), " ")
	return strings.TrimSpace(id)
}

// program returns a program of the version. Debian's newest one has a folder that is not on the
// PATH.
func (s PostgresServer) program(tb testing.TB, name string) string {
	tb.Helper()
	if s.fetched != "" {
		return filepath.Join(Fetched(tb, s.fetched), "bin", name)
	}
	folders, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	slices.Sort(folders)
	slices.Reverse(folders)
	return Program(tb, name, "postgresql", folders...)
}
