package amqpidem_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/freeport"
)

// server is a RabbitMQ on loopback with its own port mapper and data. Each test has its own virtual
// host on it.
type server struct {
	dir, addr, web string
	node           string
	env            []string
	mapper, broker *exec.Cmd
	said           bytes.Buffer
}

var (
	shared  server
	sharing sync.Once
	servers struct {
		sync.Mutex
		all []*server
	}
)

// maxMessage is the largest message that the servers accept.
const maxMessage = 1 << 20

func TestMain(m *testing.M) {
	if url := os.Getenv(childURL); url != "" {
		os.Exit(child(url))
	}
	_ = flag.Set("test.parallel", "8") // they mostly wait for servers
	code := m.Run()
	if left := leftBehind(); code == 0 && left != "" {
		fmt.Fprintf(os.Stderr, "goroutines go on behind Close:\n%s\n", left)
		code = 1
	}
	for _, s := range servers.all {
		s.end()
	}
	os.Exit(code)
}

// leftBehind returns goroutines of the package that still run after everything was closed.
func leftBehind() string {
	stacks := make([]byte, 4<<20)
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		text := string(stacks[:runtime.Stack(stacks, true)])
		if !strings.Contains(text, "adapters/amqpidem.") && !strings.Contains(text, "amqp091-go.") {
			return ""
		}
		if time.Now().After(end) {
			return text
		}
	}
}

// rabbit returns the server that tests share.
func rabbit(tb testing.TB) *server {
	tb.Helper()
	sharing.Do(func() { shared.start(tb) })
	if shared.addr == "" {
		tb.Fatal("the server that tests share did not start; another test says why")
	}
	return &shared
}

// start makes the server's directory and starts it.
func (s *server) start(tb assert.T) {
	tb.Helper()
	const launcher = "/usr/lib/rabbitmq/bin/rabbitmq-server"
	_, err := os.Stat(launcher)
	assert.NoError(tb, err, "RabbitMQ is not installed: apt-get install -y rabbitmq-server")
	mapper, err := exec.LookPath("epmd")
	assert.NoError(tb, err, "Erlang is not installed: apt-get install -y rabbitmq-server")
	s.dir, err = os.MkdirTemp("", "retrysafe-rabbitmq")
	assert.NoError(tb, err, "a folder")
	servers.Lock()
	servers.all = append(servers.all, s)
	servers.Unlock()
	forCommands, err := freeport.GetRow(4) // rabbitmqctl takes any of a range
	assert.NoError(tb, err, "free ports")
	var ports [4]string // AMQP, management, distribution, port mapper
	for i := range ports {
		ports[i], err = freeport.Get()
		assert.NoError(tb, err, "a free port")
	}
	config := fmt.Sprintf("listeners.tcp.default = 127.0.0.1:%s\nmanagement.tcp.ip = 127.0.0.1\nmanagement.tcp.port = %s\nloopback_users = none\n"+
		"vm_memory_high_watermark.absolute = 1GB\ndisk_free_limit.absolute = 1MB\nlog.console = true\nlog.console.level = warning\nlog.file = false\ncollect_statistics_interval = 500\n"+
		"max_message_size = %d\n", ports[0], ports[1], maxMessage)
	for name, text := range map[string]string{"rabbitmq.conf": config, "plugins": "[rabbitmq_management].", "mnesia/": "", "log/": "", "gen/": ""} {
		if dir, ok := strings.CutSuffix(name, "/"); ok {
			assert.NoError(tb, os.Mkdir(filepath.Join(s.dir, dir), 0o755), "a folder")
			continue
		}
		assert.NoError(tb, os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600), "configuration")
	}
	s.node = "retrysafe" + ports[0] + "@localhost"
	s.env = []string{
		"PATH=" + os.Getenv("PATH"), "LANG=C.UTF-8", "HOME=" + s.dir, "RABBITMQ_CONF_ENV_FILE=/dev/null", "RABBITMQ_CONFIG_FILE=" + s.dir + "/rabbitmq.conf",
		"RABBITMQ_ADVANCED_CONFIG_FILE=" + s.dir + "/none.config", "RABBITMQ_ENABLED_PLUGINS_FILE=" + s.dir + "/plugins",
		"RABBITMQ_MNESIA_BASE=" + s.dir + "/mnesia", "RABBITMQ_LOG_BASE=" + s.dir + "/log", "RABBITMQ_PID_FILE=" + s.dir + "/pid",
		"RABBITMQ_GENERATED_CONFIG_DIR=" + s.dir + "/gen", "RABBITMQ_FEATURE_FLAGS_FILE=" + s.dir + "/feature_flags",
		"RABBITMQ_NODENAME=" + s.node, "RABBITMQ_NODE_IP_ADDRESS=127.0.0.1", "RABBITMQ_NODE_PORT=" + ports[0], "RABBITMQ_DIST_PORT=" + ports[2],
		"ERL_EPMD_PORT=" + ports[3], "ERL_EPMD_ADDRESS=127.0.0.1", "RABBITMQ_CTL_DIST_PORT_MIN=" + forCommands[0], "RABBITMQ_CTL_DIST_PORT_MAX=" + forCommands[3],
		"RABBITMQ_ALLOW_INPUT=1", // the launcher becomes the server and so has its pid
		"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=-noinput -kernel inet_dist_use_interface {127,0,0,1} +S 2:2 +sbwt none",
	}
	s.mapper = s.command(mapper, "-port", ports[3], "-address", "127.0.0.1")
	assert.NoError(tb, s.mapper.Start(), "start epmd")
	s.web = "http://127.0.0.1:" + ports[1] + "/api/"
	s.run(tb, "127.0.0.1:"+ports[0])
}

func (s *server) command(name string, args ...string) *exec.Cmd {
	c := exec.Command(name, args...)
	c.Env, c.Dir = s.env, s.dir
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return c
}

// run starts the server on its existing data and waits until it answers.
func (s *server) run(tb assert.T, addr string) {
	tb.Helper()
	s.broker = s.command("/usr/lib/rabbitmq/bin/rabbitmq-server")
	s.broker.Stdout, s.broker.Stderr = &s.said, &s.said
	assert.NoError(tb, s.broker.Start(), "start RabbitMQ")
	_, port, _ := strings.Cut(addr, ":")
	for end := time.Now().Add(8 * time.Minute); s.api(http.MethodGet, "health/checks/port-listener/"+port, nil) != nil; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			s.kill()
			tb.Fatalf("RabbitMQ does not answer:\n%s", s.said.String())
		}
	}
	s.addr = addr
}

// kill ends the server as kill -9 does.
func (s *server) kill() {
	_ = s.broker.Process.Kill()
	_ = s.broker.Wait()
}

func (s *server) end() {
	if s.broker != nil && s.broker.Process != nil {
		s.kill()
	}
	if s.mapper != nil && s.mapper.Process != nil {
		_ = s.mapper.Process.Kill()
		_ = s.mapper.Wait()
	}
	_ = os.RemoveAll(s.dir)
}

// ctl runs the command line of RabbitMQ.
func (s *server) ctl(tb testing.TB, args ...string) {
	tb.Helper()
	said, err := s.command("/usr/lib/rabbitmq/bin/rabbitmqctl", slices.Concat([]string{"-n", s.node, "--quiet"}, args)...).CombinedOutput()
	assert.NoError(tb, err, "rabbitmqctl %q: %s", args, said)
}

// api calls the management interface; out gets the answer.
func (s *server) api(method, path string, in any, out ...any) error {
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(b)
	}
	r, err := http.NewRequest(method, s.web+path, body)
	if err != nil {
		return err
	}
	r.SetBasicAuth("guest", "guest")
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	a, err := http.DefaultClient.Do(r.WithContext(ctx))
	if err != nil {
		return err
	}
	defer a.Body.Close()
	answer, err := io.ReadAll(a.Body)
	switch {
	case err != nil:
		return err
	case a.StatusCode >= 300:
		return fmt.Errorf("%s %s: %s: %s", method, path, a.Status, answer)
	case len(out) > 0:
		return json.Unmarshal(answer, out[0])
	}
	return nil
}

// vhost makes a virtual host and returns its URL, as guest. It is removed when the test ends, since
// queues take memory: after some repetitions the server would block publishers.
func (s *server) vhost(tb testing.TB) string {
	tb.Helper()
	name := "t" + rand.Text()
	assert.NoError(tb, s.api(http.MethodPut, "vhosts/"+name, nil), "a virtual host")
	tb.Cleanup(func() {
		_ = s.api(http.MethodDelete, "vhosts/"+name, nil) // the test may have killed the server
	})
	assert.NoError(tb, s.api(http.MethodPut, "permissions/"+name+"/guest", map[string]string{"configure": ".*", "write": ".*", "read": ".*"}), "permissions")
	return "amqp://guest:guest@" + s.addr + "/" + name
}

// user adds another user of a virtual host.
func (s *server) user(tb testing.TB, url, configure, write, read string) string {
	tb.Helper()
	name, vhost := "u"+rand.Text(), url[strings.LastIndex(url, "/")+1:]
	assert.NoError(tb, s.api(http.MethodPut, "users/"+name, map[string]string{"password": "secret", "tags": ""}), "a user")
	assert.NoError(tb, s.api(http.MethodPut, "permissions/"+vhost+"/"+name, map[string]string{"configure": configure, "write": write, "read": read}), "permissions")
	return "amqp://" + name + ":secret@" + s.addr + "/" + vhost
}

// urlThrough returns a URL with another address.
func urlThrough(url, addr string) string {
	head, tail, _ := strings.Cut(url, "@")
	return head + "@" + addr + tail[strings.Index(tail, "/"):]
}

// rawChannel returns a plain client, for what the package does not do.
func rawChannel(tb testing.TB, url string) *amqp.Channel {
	tb.Helper()
	conn, err := amqp.Dial(url)
	assert.NoError(tb, err, "dial")
	tb.Cleanup(func() { _ = conn.Close() })
	ch, err := conn.Channel()
	assert.NoError(tb, err, "channel")
	return ch
}

// queueDepth returns how many messages of a queue wait.
func queueDepth(tb testing.TB, url, queue string) int {
	tb.Helper()
	conn, err := amqp.Dial(url)
	assert.NoError(tb, err, "dial")
	defer conn.Close()
	ch, err := conn.Channel()
	assert.NoError(tb, err, "channel")
	q, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil)
	assert.NoError(tb, err, "look at a queue")
	return q.Messages
}

// eventually waits for something that another program does.
func eventually(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	for end := time.Now().Add(3 * time.Minute); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			tb.Fatalf("it did not happen in 3 minutes: %s", what)
		}
	}
}

var quiet = slog.New(slog.DiscardHandler)
