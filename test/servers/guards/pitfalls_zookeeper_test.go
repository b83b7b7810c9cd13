package guards_test

import (
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
)

// snippet: watch-before-latch
type turn struct {
	watch func(node string, gone func()) (there bool, err error)
	latch chan struct{}
}

// wait waits until the one before us in the queue has gone.
func (t *turn) wait(before string) error {
	there, err := t.watch(before, func() {
		if t.latch != nil {
			close(t.latch)
		}
	})
	if err != nil || !there {
		return err
	}
	t.latch = make(chan struct{})
	<-t.latch
	return nil
}

// end

// TestPitfallWatchBeforeLatch: the lock before ours is released between the watch and the latch,
// and no event ever wakes the waiter.
func TestPitfallWatchBeforeLatch(t *testing.T) {
	t.Parallel()
	s := servers.StartZooKeeper(t)
	conn, _, err := zk.Connect([]string{s.Addr}, 10*time.Second, zk.WithLogger(silent{}))
	assert.NoError(t, err, "connect")
	t.Cleanup(conn.Close)
	before, err := conn.Create("/before", nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
	assert.NoError(t, err, "the lock before ours")
	told := make(chan struct{})
	ours := &turn{watch: func(node string, gone func()) (bool, error) {
		there, _, events, err := conn.ExistsW(node)
		assert.NoError(t, conn.Delete(before, -1), "it is released at this moment")
		<-events
		gone()
		close(told)
		return there, err
	}}
	woken := make(chan error, 1)
	go func() { woken <- ours.wait(before) }()
	<-told
	there, _, err := conn.Exists(before)
	assert.True(t, err == nil && !there, "the lock is free: %v, %v", there, err)
	select {
	case err := <-woken:
		t.Fatalf("it has the lock: %v", err)
	case <-time.After(2 * time.Second): // nothing is left that could wake it
	}
}

// silent is a logger for the client that discards everything.
type silent struct{}

// Printf implements [zk.Logger].
func (silent) Printf(string, ...any) {}
