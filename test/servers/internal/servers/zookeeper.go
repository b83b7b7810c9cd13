package servers

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/retrysafe/retrysafe/adapters/zklock"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/test/servers/internal/waits"
)

// ZooKeeperServer is a server on loopback. It allows short sessions, so that what a killed process
// held is free within a test.
type ZooKeeperServer struct {
	Addr string
	said bytes.Buffer
}

// StartZooKeeper runs a server until the test ends; env is added to its environment.
func StartZooKeeper(tb testing.TB, env ...string) *ZooKeeperServer {
	tb.Helper()
	java, err := exec.LookPath("java")
	assert.NoError(tb, err, "java is not installed: apt-get install -y default-jre-headless")
	jars := []string{"/usr/share/java/zookeeper.jar", "/usr/share/java/slf4j-simple.jar"}
	for _, jar := range jars {
		_, err := os.Stat(jar)
		assert.NoError(tb, err, "ZooKeeper is not installed: apt-get install -y zookeeper libslf4j-java")
	}
	dir, err := os.MkdirTemp("", "retrysafe-zookeeper")
	assert.NoError(tb, err, "a folder")
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	port := FreePort(tb)
	s, conf := &ZooKeeperServer{Addr: "127.0.0.1:" + port}, filepath.Join(dir, "zoo.cfg")
	assert.NoError(tb, os.WriteFile(conf, fmt.Appendf(nil, "dataDir=%s/data\ntickTime=200\nmaxSessionTimeout=60000\nclientPort=%s\nclientPortAddress=127.0.0.1\n"+
		"admin.enableServer=false\nmaxClientCnxns=0\n", dir, port), 0o600), "configuration")
	cmd := exec.CommandContext(context.Background(), java, "-Xms32m", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dzookeeper.forceSync=no",
		"-cp", strings.Join(jars, ":"), "org.apache.zookeeper.server.quorum.QuorumPeerMain", conf)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = &s.said, &s.said
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	assert.NoError(tb, cmd.Start(), "start ZooKeeper")
	tb.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	ctx, cancel := context.WithTimeout(context.Background(), waits.Patience)
	defer cancel()
	b, err := zklock.Open(ctx, []string{s.Addr}, &zklock.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		tb.Fatalf("ZooKeeper does not answer: %v\n%s", err, s.said.String())
	}
	b.Close()
	return s
}
