package main

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// copyTree copies what git knows, changes of the working tree included.
func copyTree(to string) error {
	names, err := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard").Output()
	if err != nil {
		return err
	}
	for name := range strings.SplitSeq(strings.TrimRight(string(names), "\x00"), "\x00") {
		b, err := os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed, and not committed yet
		}
		if err != nil {
			return err
		}
		target := filepath.Join(to, name)
		if err := os.MkdirAll(filepath.Dir(target), 0o700); err != nil {
			return err
		}
		mode := fs.FileMode(0o600)
		if info, err := os.Stat(name); err == nil && info.Mode()&0o100 != 0 {
			mode = 0o700
		}
		if err := os.WriteFile(target, b, mode); err != nil {
			return err
		}
	}
	return nil
}
