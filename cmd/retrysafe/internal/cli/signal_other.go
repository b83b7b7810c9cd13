//go:build !unix

package cli

import "os"

// reloadSignal is what Unix alone has: elsewhere a new configuration takes a restart.
var reloadSignal os.Signal
