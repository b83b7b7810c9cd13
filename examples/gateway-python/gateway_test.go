package gatewaypython_test

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/examples/internal/exampletest"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/servertest"
)

// run starts the client, and returns a function that waits for its end and returns its output.
func run(t *testing.T, args ...string) (end func() (string, error)) {
	t.Helper()
	c := exec.CommandContext(t.Context(), "python3", append([]string{"client.py"}, args...)...)
	c.Env = append(os.Environ(), "NO_PROXY=*")
	var said bytes.Buffer
	c.Stdout, c.Stderr = &said, &said
	assert.NoError(t, c.Start(), "start the client")
	return func() (string, error) {
		err := c.Wait()
		return said.String(), err
	}
}

// TestOnce: a client that gives up waiting and tries again orders once. So does one whose gateway
// is killed while the service works: it learns that the outcome is unknown, and nothing runs again.
func TestOnce(t *testing.T) {
	t.Parallel()
	here, err := os.Getwd()
	assert.NoError(t, err, "this folder")
	redis := servertest.StartRedis(t)
	service := exampletest.StartCommand(t, t.TempDir(), "python3", func(address string) []string {
		return []string{here + "/service.py", "--listen", address}
	})
	gateway := exampletest.StartCommand(t, t.TempDir(), exampletest.Build(t, "../../cmd/retrysafe"), func(address string) []string {
		return []string{
			"gateway", "--listen", address, "--upstream", "http://" + service.Addr, "--store", "redis://" + redis.Addr,
			"--namespace", "shop", "--lease", "3s",
		}
	})
	url := "http://" + gateway.Addr + "/orders"
	orders := func(want string) {
		t.Helper()
		assert.Equal(t, service.Do(t, "GET", "/", "").Body, `{"orders": `+want+`}`, "orders")
	}

	out, err := run(t, "--url", url, "--key", "one")()
	assert.NoError(t, err, "the client says: %s", out)
	out, err = run(t, "--url", url, "--key", "one")()
	assert.NoError(t, err, "the client says: %s", out)
	assert.Contains(t, out, `201 {"order": 1, "item": "tea"} replayed`, "the second run")
	orders("1")

	service.Kill()
	service.Args("--pause", "3")
	service.Restart(t)
	out, err = run(t, "--url", url, "--key", "two", "--timeout", "1")()
	assert.NoError(t, err, "the client says: %s", out)
	assert.Contains(t, out, "no answer", "the first try")
	assert.Contains(t, out, `201 {"order": 2, "item": "tea"} replayed`, "the last try")
	orders("2")

	service.Kill()
	service.Args("--pause", "600")
	service.Restart(t)
	end := run(t, "--url", url, "--key", "three")
	exampletest.Await(t, "the third order", func() bool { return strings.Contains(service.Do(t, "GET", "/", "").Body, "3") })
	gateway.Kill()
	gateway.Restart(t)
	out, err = end()
	assert.True(t, err != nil, "the client fails; it says %s", out)
	assert.Contains(t, out, "outcome-unknown", "the last answer")
	orders("3")
}
