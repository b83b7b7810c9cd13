//go:build linux

package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/pagetest"
)

// TestConsoleByCurl runs the commands of docs/console.md with the real command, and checks the
// output that the page shows: a token is made, and a payment in doubt is found and resolved.
func TestConsoleByCurl(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/console.md")
	assert.NoError(t, err, "page")
	ports := freePorts(t, 3)
	steps := pagetest.Steps(strings.NewReplacer("7001", ports[0], "7002", ports[1], "7003", ports[2]).Replace(string(text)))
	assert.Equal(t, len(steps), 4, "steps of the page")
	playSteps(t, t.TempDir(), 3*time.Minute, steps)
}
