//go:build unix

package freeport

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// reserve takes a port for as long as this process lives, by a lock on a file. A port that cannot
// be reserved for another reason is given all the same: reservations only spare tests each other's
// ports.
func reserve(port string) bool {
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("freeport-%d", os.Getuid()))
	if os.MkdirAll(dir, 0o700) != nil {
		return true
	}
	f, err := os.OpenFile(filepath.Join(dir, port), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return true
	}
	if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		_ = f.Close()
		return false
	}
	reserved = append(reserved, f) // open to the end, or the lock would go
	return true
}

// reserved is guarded by mu.
var reserved []*os.File
