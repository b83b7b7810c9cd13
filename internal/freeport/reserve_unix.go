//go:build unix

package freeport

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// reservePort reserves a port for the life of this process, by locking a file. If a port cannot be
// reserved for any reason but another's lock, it is used anyway: reservations only keep tests from
// using each other's ports.
func reservePort(port string) bool {
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("freeport-%d", os.Getuid()))
	if os.MkdirAll(dir, 0o700) != nil {
		return true
	}
	f, err := os.OpenFile(filepath.Join(dir, port), os.O_CREATE|os.O_RDWR, 0o600) //nolint:gosec // a folder of this user, and the name is a port
	if err != nil {
		return true
	}
	if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		_ = f.Close()
		return false
	}
	reserved = append(reserved, f) // stays open, since closing it would release the lock
	return true
}

// reserved is guarded by mu.
var reserved []*os.File
