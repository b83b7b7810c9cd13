package servertest

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// RabbitMQ is a test's broker, with its own port mapper and data.
type RabbitMQ struct {
	// Addr is host:port.
	Addr string
	// Node is the name of the broker's node.
	Node string

	process Process
	mapper  Process
	dir     string
	web     string
	env     []string
}

const rabbitPrograms = "/usr/lib/rabbitmq/bin"

// StartRabbitMQ runs a broker until the test ends. config are lines of rabbitmq.conf.
func StartRabbitMQ(tb testing.TB, config ...string) *RabbitMQ {
	tb.Helper()
	Program(tb, "rabbitmq-server", "rabbitmq-server", rabbitPrograms)
	forCommands := freePorts(tb, 4) // rabbitmqctl takes any of a range
	var ports [4]string             // AMQP, management, distribution, port mapper
	for i := range ports {
		ports[i] = freePort(tb)
	}
	r := &RabbitMQ{
		Addr: "127.0.0.1:" + ports[0], Node: "retrysafe" + ports[0] + "@localhost", web: "http://127.0.0.1:" + ports[1] + "/api/", dir: newFolder(tb),
	}
	lines := append([]string{
		"listeners.tcp.default = " + r.Addr, "management.tcp.ip = 127.0.0.1", "management.tcp.port = " + ports[1], "loopback_users = none",
		"vm_memory_high_watermark.absolute = 1GB", "disk_free_limit.absolute = 1MB", "log.console = true", "log.console.level = warning", "log.file = false",
	}, config...)
	for _, dir := range []string{"mnesia", "log", "gen"} {
		assert.NoError(tb, os.Mkdir(filepath.Join(r.dir, dir), 0o755), "a folder")
	}
	for name, text := range map[string]string{"rabbitmq.conf": strings.Join(lines, "\n") + "\n", "plugins": "[rabbitmq_management]."} {
		assert.NoError(tb, os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o600), "configuration")
	}
	r.env = []string{
		"PATH=" + os.Getenv("PATH"), "LANG=C.UTF-8", "HOME=" + r.dir, "RABBITMQ_CONF_ENV_FILE=/dev/null", "RABBITMQ_CONFIG_FILE=" + r.dir + "/rabbitmq.conf",
		"RABBITMQ_ADVANCED_CONFIG_FILE=" + r.dir + "/none.config", "RABBITMQ_ENABLED_PLUGINS_FILE=" + r.dir + "/plugins",
		"RABBITMQ_MNESIA_BASE=" + r.dir + "/mnesia", "RABBITMQ_LOG_BASE=" + r.dir + "/log", "RABBITMQ_PID_FILE=" + r.dir + "/pid",
		"RABBITMQ_GENERATED_CONFIG_DIR=" + r.dir + "/gen", "RABBITMQ_FEATURE_FLAGS_FILE=" + r.dir + "/feature_flags",
		"RABBITMQ_NODENAME=" + r.Node, "RABBITMQ_NODE_IP_ADDRESS=127.0.0.1", "RABBITMQ_NODE_PORT=" + ports[0], "RABBITMQ_DIST_PORT=" + ports[2],
		"ERL_EPMD_PORT=" + ports[3], "ERL_EPMD_ADDRESS=127.0.0.1",
		"RABBITMQ_CTL_DIST_PORT_MIN=" + forCommands[0], "RABBITMQ_CTL_DIST_PORT_MAX=" + forCommands[3],
		"RABBITMQ_ALLOW_INPUT=1", // the launcher becomes the server, so both have one pid
		"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=-noinput -kernel inet_dist_use_interface {127,0,0,1} +S 2:2 +sbwt none",
	}
	r.mapper.Start(tb, r.command(Program(tb, "epmd", "rabbitmq-server"), "-port", ports[3], "-address", "127.0.0.1"))
	tb.Cleanup(func() {
		r.Kill()
		r.mapper.End(syscall.SIGKILL)
	})
	r.Restart(tb)
	return r
}

func (r *RabbitMQ) command(name string, args ...string) *exec.Cmd {
	c := exec.Command(name, args...)
	c.Env, c.Dir = r.env, r.dir
	return c
}

// Restart starts the broker on its existing data, after Kill.
func (r *RabbitMQ) Restart(tb testing.TB) {
	tb.Helper()
	r.process.Start(tb, r.command(rabbitPrograms+"/rabbitmq-server"))
	_, p, _ := strings.Cut(r.Addr, ":")
	r.process.Await(tb, "RabbitMQ", func() bool { return r.API(http.MethodGet, "health/checks/port-listener/"+p, nil, nil) == nil })
}

// Kill ends the broker like a crash.
func (r *RabbitMQ) Kill() { r.process.End(syscall.SIGKILL) }

// Web returns the URL of the management API, which ends with /api/.
func (r *RabbitMQ) Web() string { return r.web }

// Ctl runs the broker's command-line tool.
func (r *RabbitMQ) Ctl(tb testing.TB, args ...string) {
	tb.Helper()
	said, err := r.command(rabbitPrograms+"/rabbitmqctl", append([]string{"-n", r.Node, "--quiet"}, args...)...).CombinedOutput()
	assert.NoError(tb, err, "rabbitmqctl %q: %s", args, said)
}

// API calls the management interface. in and out may be nil.
func (r *RabbitMQ) API(method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(b)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, r.web+path, body)
	if err != nil {
		return err
	}
	req.SetBasicAuth("guest", "guest")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return err
	case resp.StatusCode >= http.StatusMultipleChoices:
		return fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, answer)
	case out != nil:
		return json.Unmarshal(answer, out)
	}
	return nil
}

// VHost creates a new virtual host, and returns its URL for guest.
func (r *RabbitMQ) VHost(tb testing.TB) string {
	tb.Helper()
	name := "t" + rand.Text()
	assert.NoError(tb, r.API(http.MethodPut, "vhosts/"+name, nil, nil), "a virtual host")
	assert.NoError(tb, r.API(http.MethodPut, "permissions/"+name+"/guest", map[string]string{"configure": ".*", "write": ".*", "read": ".*"}, nil), "permissions")
	return "amqp://guest:guest@" + r.Addr + "/" + name
}
