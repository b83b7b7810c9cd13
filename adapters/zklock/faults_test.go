package zklock_test

import (
	"context"
	"crypto/rand"
	"errors"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/lock"
)

// TestCutAtEachRequest breaks the connection at each request of a lock, before and after the server
// has it. The session lives on, and nothing of the try may stay in the queue. The client's own lock
// leaves its node if the list is cut off, and then waits for that node.
func TestCutAtEachRequest(t *testing.T) {
	t.Parallel()
	for what, op := range map[string]int32{"create": opCreate, "parent": opContainer, "list": opChildren, "delete": opDelete} {
		for when, f := range map[string]fate{"request": loseRequest, "reply": loseReply} {
			t.Run(what+" "+when, func(t *testing.T) {
				t.Parallel()
				c, other := connect(t, long), connect(t, long)
				name := rand.Text()
				c.proxy.setHook(func(asked int32, n int) fate {
					if asked == op && n == 1 {
						return f
					}
					return pass
				})
				r := request(name)
				_, err := c.TryLock(testContext(t), r)
				if op == opDelete {
					assert.NoError(t, err, "TryLock")
					err = c.Unlock(testContext(t), r)
				}
				assert.True(t, err != nil, "the cut is an error")
				acquireFree(t, other, name) // no caller has called Unlock
				g, err := c.TryLock(testContext(t), r)
				assert.NoError(t, err, "TryLock by the same owner")
				again, err := c.TryLock(testContext(t), r)
				assert.NoError(t, err, "TryLock once more")
				assert.Equal(t, again.Fence, g.Fence, "the fence")
				assert.NoError(t, c.Unlock(testContext(t), r), "Unlock")
				assert.Equal(t, len(queue(t, rawClient(t), name)), 0, "nodes that are left")
			})
		}
	}
}

// TestClientsOwnLockLeavesAnOrphan shows the fault that the test above guards against.
func TestClientsOwnLockLeavesAnOrphan(t *testing.T) {
	t.Parallel()
	p := startProxy(t, zooKeeper(t))
	conn, _, err := zk.Connect([]string{p.Addr}, long, zk.WithLogger(silent{}))
	assert.NoError(t, err, "connect")
	defer conn.Close()
	name := rand.Text()
	acquireFree(t, connect(t, long), "root") // makes the root
	p.setHook(func(op int32, n int) fate {
		if op == opChildren && n == 1 {
			return loseRequest
		}
		return pass
	})
	assert.True(t, zk.NewLock(conn, "/retrysafe/locks/"+name, zk.WorldACL(zk.PermAll)).Lock() != nil, "the cut is an error")
	p.setHook(nil)
	eventually(t, "the session is back", func() bool {
		_, _, err := conn.Get("/retrysafe/locks")
		return err == nil
	})
	assert.Equal(t, len(queue(t, rawClient(t), name)), 1, "orphans")
}

// TestHolderKeepsThroughCut breaks the connection of a holder: it keeps its lock, fence and
// session.
func TestHolderKeepsThroughCut(t *testing.T) {
	t.Parallel()
	c, other := connect(t, long), connect(t, long)
	name := rand.Text()
	r := request(name)
	g, err := c.TryLock(testContext(t), r)
	assert.NoError(t, err, "TryLock")
	waiting := make(chan error, 1)
	w, ctx := request(name), testContext(t)
	go func() { waiting <- other.Wait(ctx, w) }()
	eventually(t, "the other waits", func() bool { return other.proxy.requestCount(opGetData) == 1 })
	for _, one := range []*client{c, other} {
		one.proxy.Cut()
		one.proxy.Mend()
	}
	eventually(t, "the session is back", func() bool { return c.Extend(testContext(t), r) == nil })
	again, err := c.TryLock(testContext(t), r)
	assert.NoError(t, err, "TryLock")
	assert.Equal(t, again.Fence, g.Fence, "the fence")
	select {
	case <-g.Done:
		t.Fatal("told of a loss")
	case err := <-waiting:
		t.Fatalf("the wait is over: %v", err)
	default:
	}
	assert.NoError(t, c.Unlock(testContext(t), r), "Unlock")
	assert.NoError(t, <-waiting, "Wait, across a cut")
}

// TestSessionExpiresWhileHeld cuts a holder off until its session is over. The holder is notified
// before another one has the lock, and can lock again afterwards. The client's own lock notifies no
// one, and then always returns "deadlock".
func TestSessionExpiresWhileHeld(t *testing.T) {
	t.Parallel()
	c, other := connect(t, brief), connect(t, long)
	locks, others := lock.New(c, nil), lock.New(other, nil)
	name := rand.Text()
	held, err := locks.Lock(testContext(t), name)
	assert.NoError(t, err, "Lock")
	next := make(chan *lock.Lock, 1)
	early := make(chan bool, 1)
	ctx := testContext(t)
	go func() {
		l, _ := others.Lock(ctx, name)
		early <- held.Err() == nil
		next <- l
	}()
	eventually(t, "the other waits", func() bool { return other.proxy.requestCount(opGetData) == 1 })
	c.proxy.Cut()
	<-held.Done()
	assert.ErrorIs(t, held.Err(), lock.ErrLost, "Err")
	assert.True(t, !<-early, "the holder was told before another one got the lock")
	l := <-next
	assert.True(t, l != nil && l.Fence() > held.Fence(), "the fence grows")
	assert.ErrorIs(t, held.Release(testContext(t)), lock.ErrLost, "Release")
	c.proxy.Mend()
	eventually(t, "the client is back, and told that another one has the lock", func() bool {
		_, err := locks.TryLock(testContext(t), name)
		return errors.Is(err, lock.ErrHeld)
	})
	assert.NoError(t, l.Release(testContext(t)), "Release")
	again, err := locks.Lock(testContext(t), name)
	assert.NoError(t, err, "Lock")
	assert.True(t, again.Fence() > l.Fence(), "the fence grows")
	assert.NoError(t, again.Release(testContext(t)), "Release")
}

// TestDoneOfASession cuts a client off until its session is over, and reconnects it. The grant's
// Done is closed, whether the holder counts leases or not.
func TestDoneOfASession(t *testing.T) {
	t.Parallel()
	c, look := connect(t, brief), rawClient(t)
	name := rand.Text()
	r := request(name)
	g, err := c.TryLock(testContext(t), r)
	assert.NoError(t, err, "TryLock")
	c.proxy.Cut()
	eventually(t, "the session is over", func() bool { return len(queue(t, look, name)) == 0 })
	c.proxy.Mend()
	<-g.Done
	assert.ErrorIs(t, c.Extend(testContext(t), r), lock.ErrLost, "Extend")
	assert.ErrorIs(t, c.Unlock(testContext(t), r), lock.ErrLost, "Unlock")
	var anew lock.Grant
	r = request(name)
	eventually(t, "the client is back", func() bool {
		// it refuses calls while it looks for a server
		anew, err = c.TryLock(testContext(t), r)
		return err == nil
	})
	assert.True(t, anew.Fence > g.Fence, "the fence grows")
}

// TestWaiterOfASession does the same to a waiter: its place is gone with the session, and it gets
// another one.
func TestWaiterOfASession(t *testing.T) {
	t.Parallel()
	holder, c, look := connect(t, long), connect(t, brief), rawClient(t)
	name := rand.Text()
	held := request(name)
	_, err := holder.TryLock(testContext(t), held)
	assert.NoError(t, err, "TryLock")
	got := make(chan error, 1)
	r, ctx := request(name), testContext(t)
	go func() {
		for { // also while the client has no server
			if err := c.Wait(ctx, r); err != nil && ctx.Err() != nil {
				got <- err
				return
			}
			if _, err := c.TryLock(ctx, r); err == nil {
				got <- nil
				return
			}
		}
	}()
	eventually(t, "it stands in line", func() bool { return len(queue(t, look, name)) == 2 })
	c.proxy.Cut()
	eventually(t, "the session is over", func() bool { return len(queue(t, look, name)) == 1 })
	c.proxy.Mend()
	eventually(t, "it stands in line again", func() bool { return len(queue(t, look, name)) == 2 })
	assert.NoError(t, holder.Unlock(testContext(t), held), "Unlock")
	assert.NoError(t, <-got, "the lock")
}

// TestContextsOfCalls ends the contexts of calls that the server does not answer. Nodes that the
// server creates afterwards are deleted.
func TestContextsOfCalls(t *testing.T) {
	t.Parallel()
	c, look := connect(t, long), rawClient(t)
	held, name := request(rand.Text()), rand.Text()
	_, err := c.TryLock(testContext(t), held)
	assert.NoError(t, err, "TryLock")
	_, err = connect(t, long).TryLock(testContext(t), request(name)) // keeps the parent there
	assert.NoError(t, err, "TryLock")
	c.proxy.Stall()
	extend := func(ctx context.Context) error { return c.Extend(ctx, held) }
	for _, one := range []struct {
		what string
		call func(context.Context) error
	}{
		{"TryLock", func(ctx context.Context) error { _, err := c.TryLock(ctx, request(name)); return err }},
		{"Wait", func(ctx context.Context) error { return c.Wait(ctx, request(name)) }},
		{"Extend", extend},
		{"Unlock", func(ctx context.Context) error { return c.Unlock(ctx, held) }},
		{"Extend behind Unlock", extend},
	} {
		what, call := one.what, one.call
		ctx, cancel := context.WithCancel(t.Context())
		asked, ended := c.proxy.allRequests(), make(chan error, 1)
		go func() { ended <- call(ctx) }()
		if what == "Extend behind Unlock" { // it waits for the place, and does not ask
			<-time.After(100 * time.Millisecond)
		} else {
			eventually(t, what+" has asked", func() bool { return c.proxy.allRequests() > asked })
		}
		cancel()
		assert.ErrorIs(t, <-ended, context.Canceled, "%s", what)
	}
	eventually(t, "the server has made the nodes", func() bool { return len(queue(t, look, name)) == 3 })
	c.proxy.Flow()
	eventually(t, "they are gone", func() bool { return len(queue(t, look, name)) == 1 && len(queue(t, look, held.Name)) == 0 })
}
