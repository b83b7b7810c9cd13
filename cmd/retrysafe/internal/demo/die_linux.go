package demo

import (
	"os/exec"
	"syscall"
)

// dieWithParent ends the child when the demo itself is killed, so that no process is left.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
