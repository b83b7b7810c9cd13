package zklock_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/retrysafe/retrysafe/adapters/zklock"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/freeport"
)

// server is ZooKeeper on loopback, for all tests. Its tick is short, and it removes unused
// containers every half second.
type server struct {
	addr string
	cmd  *exec.Cmd
	dir  string
	said bytes.Buffer
}

var (
	shared  server
	sharing sync.Once
)

func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "8") // they wait more than they compute
	code := m.Run()
	if shared.cmd != nil && shared.cmd.Process != nil {
		_ = shared.cmd.Process.Kill()
		_ = shared.cmd.Wait()
	}
	if shared.dir != "" {
		_ = os.RemoveAll(shared.dir)
	}
	os.Exit(code)
}

// zooKeeper returns the address of the server.
func zooKeeper(tb testing.TB) string {
	tb.Helper()
	sharing.Do(func() { shared.start(tb) })
	if shared.addr == "" {
		tb.Fatal("the server that tests share did not start; another test says why")
	}
	return shared.addr
}

func (s *server) start(tb assert.T) {
	tb.Helper()
	java, err := exec.LookPath("java")
	assert.NoError(tb, err, "java is not installed: apt-get install -y default-jre-headless")
	jars := []string{"/usr/share/java/zookeeper.jar", "/usr/share/java/slf4j-simple.jar"}
	for _, jar := range jars {
		_, err := os.Stat(jar)
		assert.NoError(tb, err, "ZooKeeper is not installed: apt-get install -y zookeeper libslf4j-java")
	}
	s.dir, err = os.MkdirTemp("", "retrysafe-zookeeper")
	assert.NoError(tb, err, "a folder")
	port, err := freeport.Get()
	assert.NoError(tb, err, "a free port")
	conf := filepath.Join(s.dir, "zoo.cfg")
	assert.NoError(tb, os.WriteFile(conf, fmt.Appendf(nil, "dataDir=%s/data\ntickTime=200\nminSessionTimeout=400\nmaxSessionTimeout=60000\nclientPort=%s\n"+
		"clientPortAddress=127.0.0.1\nadmin.enableServer=false\n4lw.commands.whitelist=*\nmaxClientCnxns=0\n", s.dir, port), 0o600), "configuration")
	s.cmd = exec.Command(java, "-Xms32m", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dzookeeper.forceSync=no",
		"-Dznode.container.checkIntervalMs=500", "-cp", strings.Join(jars, ":"), "org.apache.zookeeper.server.quorum.QuorumPeerMain", conf)
	s.cmd.Stdout, s.cmd.Stderr = &s.said, &s.said
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	assert.NoError(tb, s.cmd.Start(), "start ZooKeeper")
	addr := "127.0.0.1:" + port
	for end := time.Now().Add(3 * time.Minute); !strings.Contains(srvr(addr), "Mode: standalone"); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			tb.Fatalf("ZooKeeper does not answer:\n%s", s.said.String())
		}
	}
	s.addr = addr
}

// srvr returns the server's status.
func srvr(addr string) string {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return ""
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Second))
	_, _ = io.WriteString(c, "srvr")
	said, _ := io.ReadAll(c)
	return string(said)
}

// open returns a backend on a server or on a proxy.
func open(tb testing.TB, addr string, session time.Duration) *zklock.Backend {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), 2*time.Minute)
	defer cancel()
	b, err := zklock.Open(ctx, []string{addr}, &zklock.Options{Session: session, Logger: slog.New(slog.DiscardHandler)})
	assert.NoError(tb, err, "Open")
	tb.Cleanup(func() { _ = b.Close() })
	return b
}

// rawClient returns a separate client, to look at the nodes.
func rawClient(tb testing.TB) *zk.Conn {
	tb.Helper()
	c, _, err := zk.Connect([]string{zooKeeper(tb)}, time.Minute, zk.WithLogger(silent{}))
	assert.NoError(tb, err, "connect")
	tb.Cleanup(c.Close)
	return c
}

type silent struct{}

func (silent) Printf(string, ...any) {}

// queue returns the nodes in the queue of a lock whose name needs no escape.
func queue(tb testing.TB, c *zk.Conn, name string) []string {
	tb.Helper()
	nodes, _, err := c.Children("/retrysafe/locks/" + name)
	if err != nil && err != zk.ErrNoNode { //nolint:errorlint // the client's own
		tb.Fatalf("list: %v", err)
	}
	return nodes
}

// exampleServer returns a server for an example, which has no test that ends it.
func exampleServer() string {
	sharing.Do(func() { shared.start(ended{}) })
	return shared.addr
}

// ended replaces a testing.T.
type ended struct{}

func (ended) Helper() {}

func (ended) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
