//go:build unix

package cli

import (
	"os"
	"syscall"
)

// reloadSignal tells the gateway to read its configuration again.
var reloadSignal os.Signal = syscall.SIGHUP
