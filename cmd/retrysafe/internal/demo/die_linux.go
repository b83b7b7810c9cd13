package demo

import (
	"os/exec"
	"syscall"
)

// dieWithParent ends the child when the demo is killed itself: nothing must stay behind.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
