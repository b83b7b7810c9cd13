package integration_test

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
	"time"

	"github.com/retrysafe/retrysafe/adapters/zklock"
	"github.com/retrysafe/retrysafe/idgen"
	"github.com/retrysafe/retrysafe/internal/assert"
)

// zooKeeperServer is a server on loopback. It allows short sessions, so that what a killed process
// held is free within a test.
type zooKeeperServer struct {
	addr string
	said bytes.Buffer
}

// startZooKeeper runs a server until the test ends; env is added to its environment.
func startZooKeeper(tb testing.TB, env ...string) *zooKeeperServer {
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
	port := freePort(tb)
	s, conf := &zooKeeperServer{addr: "127.0.0.1:" + port}, filepath.Join(dir, "zoo.cfg")
	assert.NoError(tb, os.WriteFile(conf, fmt.Appendf(nil, "dataDir=%s/data\ntickTime=200\nmaxSessionTimeout=60000\nclientPort=%s\nclientPortAddress=127.0.0.1\n"+
		"admin.enableServer=false\nmaxClientCnxns=0\n", dir, port), 0o600), "configuration")
	cmd := exec.Command(java, "-Xms32m", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dzookeeper.forceSync=no",
		"-cp", strings.Join(jars, ":"), "org.apache.zookeeper.server.quorum.QuorumPeerMain", conf)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = &s.said, &s.said
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	assert.NoError(tb, cmd.Start(), "start ZooKeeper")
	tb.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	b, err := zklock.Open(ctx, []string{s.addr}, &zklock.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		tb.Fatalf("ZooKeeper does not answer: %v\n%s", err, s.said.String())
	}
	b.Close()
	return s
}

// TestWorkersOnAServersClock: a claim uses the server's clock, which is half a minute ahead here.
func TestWorkersOnAServersClock(t *testing.T) {
	t.Parallel()
	s := startZooKeeper(t, "LD_PRELOAD="+shiftClock(t), "CLOCK_SHIFT=30")
	b, err := zklock.Open(t.Context(), []string{s.addr}, &zklock.Options{Logger: slog.New(slog.DiscardHandler)})
	assert.NoError(t, err, "Open")
	t.Cleanup(b.Close)
	_, err = zklock.NewWorkers(b, nil).Claim(t.Context())
	assert.ErrorIs(t, err, idgen.ErrClockOff, "Claim by our clock")
	held, err := zklock.NewWorkers(b, &idgen.WorkersOptions{Now: func() time.Time { return time.Now().Add(30 * time.Second) }}).Claim(t.Context())
	assert.NoError(t, err, "Claim by the server's")
	assert.NoError(t, held.Release(t.Context()), "Release")
}
