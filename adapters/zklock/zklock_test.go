package zklock_test

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/retrysafe/retrysafe/adapters/zklock"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/lock"
	"github.com/retrysafe/retrysafe/lock/locktest"
)

const (
	brief = 10 * time.Second // a session whose end a test waits for
	long  = time.Minute      // one whose end no test sees
)

// client is a backend whose network a test can cut.
type client struct {
	*zklock.Backend
	proxy *proxy
}

func connect(tb testing.TB, session time.Duration) *client {
	tb.Helper()
	p := startProxy(tb, zooKeeper(tb))
	return &client{open(tb, p.Addr, session), p}
}

func TestSuite(t *testing.T) {
	t.Parallel()
	locktest.Run(t, locktest.Config{
		Open: func(tb testing.TB) lock.Backend {
			tb.Helper()
			return connect(tb, brief)
		},
		Crash: func(b lock.Backend) { b.(*client).proxy.Cut() }, //nolint:errcheck,forcetypeassert // Open makes them
	})
}

func request(name string) lock.Request {
	r := lock.Request{Name: name, Lease: time.Minute}
	_, _ = rand.Read(r.Owner[:])
	return r
}

func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// acquireFree checks that a lock can be acquired, although the sessions of earlier holders live on.
func acquireFree(t *testing.T, b lock.Backend, name string) lock.Grant {
	t.Helper()
	r := request(name)
	for {
		g, err := b.TryLock(testContext(t), r)
		if err == nil {
			assert.NoError(t, b.Unlock(testContext(t), r), "Unlock")
			return g
		}
		assert.ErrorIs(t, err, lock.ErrHeld, "TryLock")
		assert.NoError(t, b.Wait(testContext(t), r), "Wait")
	}
}

func TestUncontended(t *testing.T) {
	t.Parallel()
	c := connect(t, long)
	var g lock.Grant
	eventually(t, "the server has not removed the parent in between", func() bool {
		name := rand.Text()
		neighbour := request(name)
		_, err := c.TryLock(testContext(t), neighbour) // keeps the parent there after its Unlock
		assert.NoError(t, err, "TryLock")
		c.proxy.setHook(nil)
		next := request(name)
		_, err = c.TryLock(testContext(t), next)
		assert.ErrorIs(t, err, lock.ErrHeld, "TryLock")
		assert.NoError(t, c.Unlock(testContext(t), neighbour), "Unlock")
		c.proxy.setHook(nil)
		g, err = c.TryLock(testContext(t), next)
		assert.NoError(t, err, "TryLock")
		assert.NoError(t, c.Unlock(testContext(t), next), "Unlock")
		return c.proxy.requestCount(opContainer) == 0
	})
	assert.Equal(t, c.proxy.allRequests(), 3, "requests for a lock and its release")
	for _, op := range []int32{opCreate, opChildren, opDelete} {
		assert.Equal(t, c.proxy.requestCount(op), 1, "requests of kind %d", op)
	}
	assert.Equal(t, g.Lease, long*2/5, "the lease, by the session that the server gave")
}

func TestLeaseIsOfTheSessionThatTheServerGives(t *testing.T) {
	t.Parallel()
	b := open(t, zooKeeper(t), 10*time.Minute)
	g, err := b.TryLock(testContext(t), request(rand.Text()))
	assert.NoError(t, err, "TryLock")
	assert.Equal(t, g.Lease, time.Minute*2/5, "the lease") // the server gives a minute at most
}

// TestOneWakeUpEach puts waiters of as many processes in a queue: each wakes once, in order.
func TestOneWakeUpEach(t *testing.T) {
	t.Parallel()
	const waiters = 8
	name := rand.Text()
	holder := connect(t, long)
	held := request(name)
	last, err := holder.TryLock(testContext(t), held)
	assert.NoError(t, err, "TryLock")
	look := rawClient(t)
	type entry struct {
		n   int
		g   lock.Grant
		err error
	}
	served := make(chan entry, waiters)
	clients := make([]*client, waiters)
	for i := range waiters {
		c := connect(t, long)
		clients[i] = c
		ctx := testContext(t)
		go func() {
			r := request(name)
			var g lock.Grant
			err := c.Wait(ctx, r)
			if err == nil {
				g, err = c.TryLock(ctx, r)
			}
			served <- entry{i, g, err}
			_ = c.Unlock(ctx, r)
		}()
		eventually(t, "it stands in line", func() bool { return c.proxy.requestCount(opGetData) == 1 && len(queue(t, look, name)) == i+2 })
	}
	assert.NoError(t, holder.Unlock(testContext(t), held), "Unlock")
	for i := range waiters {
		got := <-served
		assert.NoError(t, got.err, "waiter %d", got.n)
		assert.Equal(t, got.n, i, "in turn")
		assert.True(t, got.g.Fence > last.Fence, "fences grow")
		last = got.g
	}
	for i, c := range clients {
		assert.Equal(t, c.proxy.told(), 1, "events that waiter %d got", i)
		assert.Equal(t, c.proxy.requestCount(opChildren), 2, "lists that waiter %d asked for", i)
	}
}

// eventually polls until a condition holds.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not so: %s", what)
		}
	}
}

func TestTryLockLeavesNothing(t *testing.T) {
	t.Parallel()
	a, b, look := connect(t, long), connect(t, long), rawClient(t)
	name := rand.Text()
	_, err := a.TryLock(testContext(t), request(name))
	assert.NoError(t, err, "TryLock")
	var r lock.Request
	for range 20 {
		assert.Equal(t, len(queue(t, look, name)), 1, "nodes")
		r = request(name)
		_, err = b.TryLock(testContext(t), r)
		assert.ErrorIs(t, err, lock.ErrHeld, "TryLock")
	}
	assert.Equal(t, len(queue(t, look, name)), 1, "nodes")
	assert.ErrorIs(t, b.Unlock(testContext(t), r), lock.ErrLost, "Unlock")
}

// TestContainersGo lets the server remove unused containers, and shows that fences grow across
// that.
func TestContainersGo(t *testing.T) {
	t.Parallel()
	c, look := connect(t, long), rawClient(t)
	name := rand.Text()
	first := acquireFree(t, c, name)
	eventually(t, "the node of the lock goes", func() bool {
		there, _, err := look.Exists("/retrysafe/locks/" + name)
		return err == nil && !there
	})
	assert.True(t, acquireFree(t, c, name).Fence > first.Fence, "fences grow")
}

// TestServerWithoutContainers answers as a server without containers does.
func TestServerWithoutContainers(t *testing.T) {
	t.Parallel()
	c := connect(t, long)
	c.proxy.setHook(func(op int32, _ int) fate {
		if op == opContainer {
			return refuse
		}
		return pass
	})
	acquireFree(t, c, rand.Text())
	acquireFree(t, c, rand.Text())
	assert.Equal(t, c.proxy.requestCount(opContainer), 1, "questions for a container")
}

func TestOwnNodeDeleted(t *testing.T) {
	t.Parallel()
	c, look := connect(t, long), rawClient(t)
	name := rand.Text()
	r := request(name)
	_, err := c.TryLock(testContext(t), r)
	assert.NoError(t, err, "TryLock")
	assert.NoError(t, c.Extend(testContext(t), r), "Extend")
	assert.NoError(t, look.Delete("/retrysafe/locks/"+name+"/"+queue(t, look, name)[0], -1), "delete")
	assert.ErrorIs(t, c.Extend(testContext(t), r), lock.ErrLost, "Extend")
	assert.ErrorIs(t, c.Unlock(testContext(t), r), lock.ErrLost, "Unlock")
	acquireFree(t, c, name)
}

func TestForeignNode(t *testing.T) {
	t.Parallel()
	c, look := connect(t, long), rawClient(t)
	name := rand.Text()
	_, err := c.TryLock(testContext(t), request(name))
	assert.NoError(t, err, "TryLock")
	_, err = look.Create("/retrysafe/locks/"+name+"/other", nil, 0, zk.WorldACL(zk.PermAll))
	assert.NoError(t, err, "Create")
	_, err = c.TryLock(testContext(t), request(name))
	assert.True(t, err != nil, "an error")
	assert.Contains(t, err.Error(), "root of their own", "the error")
	eventually(t, "nothing of the try is left", func() bool { return len(queue(t, look, name)) == 2 })
}

func TestClose(t *testing.T) {
	t.Parallel()
	a, b := connect(t, long), connect(t, long)
	name := rand.Text()
	g, err := a.TryLock(testContext(t), request(name))
	assert.NoError(t, err, "TryLock")
	_ = a.Close()
	<-g.Done
	acquireFree(t, b, name)
	_, err = a.TryLock(testContext(t), request(name))
	assert.Contains(t, err.Error(), "closed", "TryLock")
	a.Close()
}

func TestOpenRefusals(t *testing.T) {
	t.Parallel()
	quiet := slog.New(slog.DiscardHandler)
	for want, o := range map[string]*zklock.Options{
		"100 ms to 24 h":           {Session: time.Millisecond},
		"must begin with a slash":  {Root: "locks"},
		"does not take who we are": {Scheme: "nobody", Auth: []byte("x"), Logger: quiet},
	} {
		_, err := zklock.Open(testContext(t), []string{zooKeeper(t)}, o)
		assert.True(t, err != nil, "refused where %q", want)
		assert.Contains(t, err.Error(), want, "why")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	p := startProxy(t, zooKeeper(t))
	p.Cut()
	_, err := zklock.Open(ctx, []string{p.Addr}, &zklock.Options{Logger: quiet})
	assert.ErrorIs(t, err, context.DeadlineExceeded, "Open")
	if errors.Is(err, lock.ErrLost) {
		t.Error("it is no loss")
	}
}
