// Package servers starts the servers of these tests, shares them among the tests of a package, and
// has proxies that lose requests and replies.
package servers

import (
	"fmt"
	"os"
	"testing"

	"github.com/retrysafe/retrysafe/test/servers/internal/child"
)

// Main runs the tests of a package, or the part of a child process, and ends the process.
func Main(m *testing.M) {
	name := os.Getenv(child.ChildEnv)
	if name == "" {
		// They share a store.
		_ = os.Setenv("RETRYSAFE_SECRET", "that of all gateways of these tests")
		code := m.Run()
		cleanUp()
		os.Exit(code)
	}
	play, ok := child.Parts[name]
	if !ok {
		fmt.Fprintln(os.Stderr, "there is no such part:", name)
		os.Exit(2)
	}
	if err := play(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}
