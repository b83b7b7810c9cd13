package gatewayjava_test

import (
	"bytes"
	"os"
	"os/exec"
	"slices"
	"testing"

	"github.com/retrysafe/retrysafe/examples/internal/exampletest"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/servertest"
)

// tomcat is the jar that Service.java runs with: Tomcat and the servlet API.
const tomcat = "/usr/share/java/tomcat10-embed-core.jar"

// brief are flags for programs that end soon: the compiler of the virtual machine does less.
var brief = []string{"-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"}

// run starts the client, and returns a function that waits for its end and returns its output.
func run(t *testing.T, args ...string) (end func() (string, error)) {
	t.Helper()
	c := exec.CommandContext(t.Context(), "java", slices.Concat(brief, []string{"Client.java"}, args)...)
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
	_, err = os.Stat(tomcat)
	assert.NoError(t, err, "Tomcat is not installed: apt-get install -y --no-install-recommends libtomcat10-embed-java")
	redis := servertest.StartRedis(t)
	service := exampletest.StartCommand(t, t.TempDir(), "java", func(address string) []string {
		return slices.Concat(brief, []string{"-cp", tomcat, here + "/Service.java", address})
	})
	gateway := exampletest.StartCommand(t, t.TempDir(), exampletest.Build(t, "../../cmd/retrysafe"), func(address string) []string {
		return []string{
			"gateway", "--listen", address, "--upstream", "http://" + service.Addr, "--store", "redis://" + redis.Addr,
			"--namespace", "shop", "--lease", "3s",
		}
	})
	url := "http://" + gateway.Addr + "/orders"
	orders := func() string { return service.Do(t, "GET", "/orders", "").Body }

	out, err := run(t, url, "one")()
	assert.NoError(t, err, "the client says: %s", out)
	out, err = run(t, url, "one")()
	assert.NoError(t, err, "the client says: %s", out)
	assert.Contains(t, out, `201 {"order":1} replayed`, "the second run")
	assert.Equal(t, orders(), `{"orders":1}`, "orders")

	page := func() exampletest.Answer {
		return gateway.Do(t, "POST", "/nowhere", "", "Idempotency-Key: lost", "Authorization: Basic YW5uOg==")
	}
	first, second := page(), page()
	assert.Equal(t, first.Status, 404, "a path without a servlet")
	assert.Contains(t, first.Body, "<!doctype html>", "Tomcat's page")
	assert.True(t, second.Replayed(), "the duplicate has %v", second.Header)
	assert.Equal(t, second.Body, first.Body, "the page of the duplicate")

	service.Kill()
	service.Args("3000")
	service.Restart(t)
	out, err = run(t, url, "two", "1000")()
	assert.NoError(t, err, "the client says: %s", out)
	assert.Contains(t, out, "no answer", "the first try")
	assert.Contains(t, out, `201 {"order":2} replayed`, "the last try")
	assert.Equal(t, orders(), `{"orders":2}`, "orders")

	service.Kill()
	service.Args("600000")
	service.Restart(t)
	end := run(t, url, "three")
	exampletest.Await(t, "the third order", func() bool { return orders() == `{"orders":3}` })
	gateway.Kill()
	gateway.Restart(t)
	out, err = end()
	assert.True(t, err != nil, "the client fails; it says %s", out)
	assert.Contains(t, out, "outcome-unknown", "the last answer")
	assert.Equal(t, orders(), `{"orders":3}`, "orders")
}
