//go:build unix

package cli

import (
	"os"
	"os/exec"
	"syscall"
)

// reloadSignal makes the gateway read its configuration again.
var reloadSignal os.Signal = syscall.SIGHUP

// detachFromTerminal shields a command from the signals of the terminal, and lets its children end
// with it.
func detachFromTerminal(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
}
