//go:build unix

package demo

import (
	"fmt"
	"net"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// TestMain plays a process that listens on demand.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "finds its port taken" {
		_, err := net.Listen("tcp", os.Args[2])
		fmt.Println(err)
		os.Exit(1)
	}
	if len(os.Args) == 3 && os.Args[1] == "listens late" {
		told := make(chan os.Signal, 1)
		signal.Notify(told, syscall.SIGHUP)
		fmt.Println("ready")
		<-told
		if _, err := net.Listen("tcp", os.Args[2]); err == nil {
			select {}
		}
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// TestProcessRunsWhenItListens: a process that does not listen yet is not shown as running, since
// its clients could not connect.
func TestProcessRunsWhenItListens(t *testing.T) {
	t.Parallel()
	addrs, err := freeAddrs(1)
	assert.NoError(t, err, "an address")
	p := &process{name: "shop", addr: addrs[0], args: []string{"listens late", addrs[0]}, log: newOutputTail()}
	t.Cleanup(p.kill)
	started := make(chan error, 1)
	go func() { started <- p.start(t.Context()) }()
	for len(started) == 0 && !strings.Contains(p.log.String(), "ready") {
		runtime.Gosched()
	}
	pid, up := p.running()
	assert.True(t, pid != 0 && !up, "a process that does not listen yet: %d, %v", pid, up)
	assert.NoError(t, syscall.Kill(pid, syscall.SIGHUP), "tell it")
	assert.NoError(t, <-started, "start")
	_, up = p.running()
	assert.True(t, up, "a process that listens")
	p.kill()
	same, up := p.running()
	assert.True(t, !up && same == pid, "a process that is gone: %d, before %d", same, pid)
}

// TestProcessOnATakenPort: a process that has lost its port to another program is not taken for the
// one that listens there.
func TestProcessOnATakenPort(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	assert.NoError(t, err, "listen")
	t.Cleanup(func() { _ = l.Close() })
	addr := l.Addr().String()
	p := &process{name: "shop", addr: addr, readyText: "listening " + addr, args: []string{"finds its port taken", addr}, log: newOutputTail()}
	t.Cleanup(p.kill)
	err = p.start(t.Context())
	assert.True(t, err != nil && strings.Contains(err.Error(), "address already in use"), "start: %v", err)
}
