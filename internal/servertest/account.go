package servertest

import (
	"os"
	"os/user"
	"strconv"
	"syscall"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// Account returns the account that runs a server which refuses root: the one that its Debian
// package has created. nil: the tests do not run as root, and neither does the server.
func Account(tb testing.TB, name, debianPackage string) *syscall.Credential {
	tb.Helper()
	if os.Getuid() != 0 {
		return nil
	}
	u, err := user.Lookup(name)
	assert.NoError(tb, err, "the user %s: apt-get install -y %s", name, debianPackage)
	uid, _ := strconv.ParseUint(u.Uid, 10, 32)
	gid, _ := strconv.ParseUint(u.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

// Give makes as the owner of a file; nil: the file stays that of the tests.
func Give(tb testing.TB, path string, as *syscall.Credential) {
	tb.Helper()
	if as != nil {
		assert.NoError(tb, os.Chown(path, int(as.Uid), int(as.Gid)), "chown")
	}
}

// Folder creates a folder of a server that runs as as, which is removed with the test. (A folder of
// testing.TB.TempDir is closed to other users.)
func Folder(tb testing.TB, as *syscall.Credential) string {
	tb.Helper()
	dir := newFolder(tb)
	Give(tb, dir, as)
	return dir
}
