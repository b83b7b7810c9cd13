//go:build !unix

package cli

import (
	"os"
	"os/exec"
)

// reloadSignal is what Unix alone has: elsewhere a new configuration takes a restart.
var reloadSignal os.Signal

// apart is what Unix alone can do: elsewhere an interrupt reaches what runs too.
func apart(*exec.Cmd) {}
