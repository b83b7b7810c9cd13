//go:build linux

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/pagetest"
)

// TestGatewayPage runs the steps of docs/gateway.md with the real command, and checks the output
// that the page shows: a payment to a service in Python is sent twice and charged once, with
// records in a file and in Redis.
func TestGatewayPage(t *testing.T) {
	t.Parallel()
	text := pagetest.Read(t, "../..", "gateway.md", "Step by step: before a Node, Python or Java service")
	ports := freePorts(t, 3)
	page := strings.NewReplacer("9000", ports[0], "8080", ports[1], "6379", ports[2],
		"redis-server ", "redis-server --bind 127.0.0.1 --port "+ports[2]+" ").Replace(text)
	// The gateway on Redis has the default address.
	page = strings.ReplaceAll(page, "--namespace shop", "--namespace shop --listen 127.0.0.1:"+ports[1])
	service := regexp.MustCompile("(?s)```python\n(.*?)```").FindStringSubmatch(page)
	assert.Equal(t, len(service), 2, "services of the page")
	steps := pagetest.Steps(page)
	assert.Equal(t, len(steps), 3, "steps of the page")
	dir := t.TempDir()
	assert.NoError(t, os.WriteFile(filepath.Join(dir, "service.py"), []byte(service[1]), 0o600), "service")
	playSteps(t, dir, 3*time.Minute, steps)
}
