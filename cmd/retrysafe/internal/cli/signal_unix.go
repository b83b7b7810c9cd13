//go:build unix

package cli

import (
	"os"
	"os/exec"
	"syscall"
)

// reloadSignal tells the gateway to read its configuration again.
var reloadSignal os.Signal = syscall.SIGHUP

// apart keeps a command from the signals of the terminal, and ends what it has started with it.
func apart(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
}
