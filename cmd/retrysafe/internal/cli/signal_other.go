//go:build !unix

package cli

import (
	"os"
	"os/exec"
)

// reloadSignal exists only on Unix. Elsewhere a new configuration takes a restart.
var reloadSignal os.Signal

// detachFromTerminal does nothing: only Unix supports it. Elsewhere an interrupt also reaches the
// child.
func detachFromTerminal(*exec.Cmd) {}
