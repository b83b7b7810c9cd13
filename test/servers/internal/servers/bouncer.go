package servers

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/servertest"
)

// StartBouncer runs PgBouncer between clients and a server until the test ends, and returns its
// address. mode is transaction, statement or session; settings are lines of its configuration.
func StartBouncer(tb testing.TB, server *Postgres, mode string, settings ...string) (addr string) {
	tb.Helper()
	as, port := servertest.PostgresAccount(tb), FreePort(tb)
	dir := servertest.Folder(tb, as)
	conf := filepath.Join(dir, "pgbouncer.ini")
	assert.NoError(tb, os.WriteFile(conf, fmt.Appendf(nil, "[databases]\n* = host=127.0.0.1 port=%s user=retrysafe\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = %s\n"+
		"unix_socket_dir =\nauth_type = any\npool_mode = %s\n%s\n", server.Port, port, mode, strings.Join(settings, "\n")), 0o644), "configuration")
	cmd := exec.Command(servertest.Program(tb, "pgbouncer", "pgbouncer", "/usr/sbin"), "-q", conf)
	cmd.Dir, cmd.SysProcAttr = dir, &syscall.SysProcAttr{Credential: as}
	process := new(servertest.Process)
	process.Start(tb, cmd)
	tb.Cleanup(func() { process.End(syscall.SIGKILL) })
	addr = net.JoinHostPort("127.0.0.1", port)
	process.Await(tb, "pgbouncer", func() bool {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
	return addr
}
