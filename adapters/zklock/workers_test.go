package zklock_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/adapters/zklock"
	"github.com/retrysafe/retrysafe/idgen"
	"github.com/retrysafe/retrysafe/internal/assert"
)

// numbersOf returns options of a test's own numbers, with a lease that a test can wait for.
func numbersOf(most int, lease time.Duration) *idgen.WorkersOptions {
	return &idgen.WorkersOptions{Namespace: rand.Text(), Max: most, Lease: lease}
}

func claim(t *testing.T, c *client, o *idgen.WorkersOptions) *idgen.Held {
	t.Helper()
	var held *idgen.Held
	eventually(t, "a number is free", func() bool {
		// a session ends, or the client looks for a server
		var err error
		held, err = zklock.NewWorkers(c.Backend, o).Claim(testContext(t))
		return err == nil
	})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		_ = held.Release(ctx)
	})
	return held
}

// waitNotified waits until a holder is notified that it has lost its number.
func waitNotified(t *testing.T, lost <-chan struct{}) {
	t.Helper()
	select {
	case <-lost:
	case <-testContext(t).Done():
		t.Fatal("nobody tells the holder")
	}
}

func generator(t *testing.T, held *idgen.Held) *idgen.Snowflake {
	t.Helper()
	g, err := idgen.NewSnowflake(held, nil)
	assert.NoError(t, err, "NewSnowflake")
	return g
}

func next(t *testing.T, g *idgen.Snowflake) idgen.ID {
	t.Helper()
	id, err := g.Next(testContext(t))
	assert.NoError(t, err, "Next")
	return id
}

// node returns the node of the reservation of number 0.
func node(o *idgen.WorkersOptions) string { return "/retrysafe/locks/ids." + o.Namespace + "/0" }

// readReserved returns its content.
func readReserved(t *testing.T, c *zk.Conn, o *idgen.WorkersOptions) (until int64, fence uint64, version int32) {
	t.Helper()
	text, stat, err := c.Get(node(o))
	assert.NoError(t, err, "Get")
	_, err = fmt.Sscanf(string(text), "%d %d", &until, &fence)
	assert.NoError(t, err, "the reservation %q", text)
	return until, fence, stat.Version
}

// TestWorkersHaveOneNumberEach: processes that claim concurrently have a number each, and none is
// left when all are held. The next holder of a released number has a greater fence and starts
// above.
func TestWorkersHaveOneNumberEach(t *testing.T) {
	t.Parallel()
	o := numbersOf(3, 10*time.Second)
	var held [3]*idgen.Held
	var all sync.WaitGroup
	for i := range held {
		c := connect(t, long)
		all.Go(func() { held[i] = claim(t, c, o) })
	}
	all.Wait()
	numbers := map[uint64]bool{}
	for _, h := range held {
		numbers[h.Number()] = true
	}
	assert.Equal(t, len(numbers), 3, "numbers")
	other := connect(t, long)
	_, err := zklock.NewWorkers(other.Backend, o).Claim(testContext(t))
	assert.ErrorIs(t, err, idgen.ErrNoWorker, "a fourth")
	g := generator(t, held[1])
	_, err = idgen.NewSnowflake(held[1], nil)
	assert.True(t, err != nil, "a second generator is refused")
	last := next(t, g)
	assert.NoError(t, held[1].Release(testContext(t)), "Release")
	waitNotified(t, held[1].Done())
	again := claim(t, other, o)
	assert.Equal(t, again.Number(), held[1].Number(), "the number that was given back")
	assert.True(t, again.Fence() > held[1].Fence(), "the fence grows")
	assert.Equal(t, again.From().UnixNano(), held[1].Until().UnixNano(), "where the next one starts")
	assert.True(t, next(t, generator(t, again)) > last, "its ids are above")
}

// TestWorkersAreKept: heartbeats hold a number for longer than its lease.
func TestWorkersAreKept(t *testing.T) {
	t.Parallel()
	c := connect(t, long)
	held := claim(t, c, numbersOf(1, 10*time.Second))
	begun := held.Until().UnixNano()
	eventually(t, "two leases", func() bool { return held.Until().UnixNano() > begun+int64(20*time.Second) })
	next(t, generator(t, held))
	select {
	case <-held.Done():
		t.Error("the number is lost")
	default:
	}
}

// TestWorkersOfASession cuts a process off until its session is over, like one that was killed. The
// process is notified and makes ids only up to its reservation, and the next holder starts above.
func TestWorkersOfASession(t *testing.T) {
	t.Parallel()
	c, other := connect(t, brief), connect(t, long)
	o := numbersOf(1, 10*time.Second)
	first := claim(t, c, o)
	g := generator(t, first)
	last := next(t, g)
	c.proxy.Cut()
	waitNotified(t, first.Done())
	assert.True(t, next(t, g) > last, "ids go on")
	stopped := make(chan error, 1)
	ctx := testContext(t)
	go func() {
		for {
			id, err := g.Next(ctx)
			if err != nil {
				stopped <- err
				return
			}
			last = id
			<-time.After(100 * time.Microsecond)
		}
	}()
	second := claim(t, other, o)
	low := next(t, generator(t, second))
	assert.ErrorIs(t, <-stopped, idgen.ErrReserved, "the end of the first holder")
	assert.True(t, low > last, "the next holder began with %d, and the first one made %d", low, last)
	assert.Equal(t, second.From().UnixNano(), first.Until().UnixNano(), "where the next one starts")
	assert.True(t, idgen.Twitter().Split(last).Time.UnixNano() < first.Until().UnixNano(), "the last id is below the reservation")
	assert.True(t, second.Fence() > first.Fence(), "the fence grows")
}

// TestWorkersClocks: a clock that is not the server's is refused before anything is reserved, and a
// number that a wrong clock has reserved is skipped.
func TestWorkersClocks(t *testing.T) {
	t.Parallel()
	c, look := connect(t, long), rawClient(t)
	for off, ok := range map[time.Duration]bool{0: true, 100 * time.Millisecond: true, -100 * time.Millisecond: true, 10 * time.Second: false, -10 * time.Second: false, time.Hour: false} {
		o := numbersOf(1, 10*time.Second)
		o.Now = func() time.Time { return time.Now().Add(off) }
		held, err := zklock.NewWorkers(c.Backend, o).Claim(testContext(t))
		if !ok {
			assert.ErrorIs(t, err, idgen.ErrClockOff, "%v off", off)
			until, _, _ := readReserved(t, look, o)
			assert.Equal(t, until, 0, "what was reserved by a clock %v off", off)
			continue
		}
		assert.NoError(t, err, "%v off", off)
		assert.NoError(t, held.Release(testContext(t)), "Release")
	}
	o := numbersOf(1, 10*time.Second)
	assert.NoError(t, claim(t, c, o).Release(testContext(t)), "Release")
	_, fence, version := readReserved(t, look, o)
	far := time.Now().Add(time.Hour).UnixNano()
	_, err := look.Set(node(o), fmt.Appendf(nil, "%d %d", far, fence), version)
	assert.NoError(t, err, "Set")
	_, err = zklock.NewWorkers(c.Backend, o).Claim(testContext(t))
	assert.ErrorIs(t, err, idgen.ErrNoWorker, "the only number is reserved for an hour")
	until, _, _ := readReserved(t, look, o)
	assert.Equal(t, until, far, "the reservation")
}

// TestWorkersLostReplies loses each of the first writes of a reservation, or its reply. Until is
// never above what the server has stored, and the number stays with its holder.
func TestWorkersLostReplies(t *testing.T) {
	t.Parallel()
	for what, f := range map[string]fate{"request": loseRequest, "reply": loseReply} {
		for call := 1; call <= 3; call++ {
			// the fence, the first reservation, and that of a heartbeat
			t.Run(fmt.Sprintf("%s %d", what, call), func(t *testing.T) {
				t.Parallel()
				c, look := connect(t, long), rawClient(t)
				o := numbersOf(1, 10*time.Second)
				c.proxy.setHook(func(op int32, n int) fate {
					if op == opSetData && n == call {
						return f
					}
					return pass
				})
				held := claim(t, c, o)
				g := generator(t, held)
				begun := held.Until().UnixNano()
				eventually(t, "heartbeats go on behind the fault", func() bool {
					until := held.Until().UnixNano()
					kept, fence, _ := readReserved(t, look, o)
					assert.True(t, until <= kept, "ids may have times up to %d, and the server knows of %d", until, kept)
					assert.Equal(t, fence, uint64(held.Fence()), "the fence that is kept")
					next(t, g)
					return c.proxy.requestCount(opSetData) > max(call, 3) && until > begun
				})
				assert.NoError(t, held.Release(testContext(t)), "Release")
				kept, _, _ := readReserved(t, look, o)
				assert.True(t, held.Until().UnixNano() <= kept, "the next one starts at %d, and ids were made up to %d", kept, held.Until().UnixNano())
			})
		}
	}
}

// TestWorkersCannotWriteOver: a holder that was overtaken, before its read or between its read and
// its write, or whose reservation was deleted, writes nothing more, and is notified.
func TestWorkersCannotWriteOver(t *testing.T) {
	t.Parallel()
	look := rawClient(t)
	o := numbersOf(1, 10*time.Second)
	held := claim(t, connect(t, long), o)
	assert.NoError(t, look.Delete(node(o), -1), "Delete")
	waitNotified(t, held.Done())
	there, _, err := look.Exists(node(o))
	assert.True(t, err == nil && !there, "nobody has made it again (%v)", err)
	for _, between := range []bool{false, true} {
		c, o := connect(t, long), numbersOf(1, 10*time.Second)
		held := claim(t, c, o)
		overtaken := make(chan int64, 1)
		overtake := func() {
			until, _, _ := readReserved(t, look, o)
			_, err := look.Set(node(o), fmt.Appendf(nil, "%d %d", until, held.Fence()+1), -1)
			assert.NoError(t, err, "Set")
			overtaken <- until
		}
		if between {
			c.proxy.setHook(func(op int32, n int) fate {
				if op == opSetData && n == 1 {
					overtake()
				}
				return pass
			})
		} else {
			overtake()
		}
		until := <-overtaken
		waitNotified(t, held.Done())
		kept, fence, _ := readReserved(t, look, o)
		assert.True(t, kept == until && fence == uint64(held.Fence()+1), "between its look and its write (%v): the reservation is that of the other", between)
		assert.True(t, held.Until().UnixNano() <= kept, "until %d, and %d is kept", held.Until().UnixNano(), kept)
	}
}

// TestWorkersLateReserve: a reservation that arrives after a greater one does not undo it, and one
// that arrives after the next holder's claim is refused.
func TestWorkersLateReserve(t *testing.T) {
	t.Parallel()
	o := numbersOf(1, 10*time.Second)
	r := idgen.NumberRequest{Namespace: o.Namespace, Lease: time.Minute}
	look := rawClient(t)
	numbers := zklock.NumbersOf(connect(t, long).Backend)
	assert.NoError(t, numbers.Agree(testContext(t), o.Namespace, idgen.Twitter()), "Agree")
	first, err := numbers.Claim(testContext(t), r)
	assert.NoError(t, err, "Claim")
	for _, until := range []int64{200, 100} {
		assert.NoError(t, first.Reserve(testContext(t), time.Unix(0, until), time.Minute), "Reserve %d", until)
		kept, _, _ := readReserved(t, look, o)
		assert.Equal(t, kept, 200, "what is kept")
	}
	other := zklock.NumbersOf(connect(t, long).Backend)
	_, err = other.Claim(testContext(t), r)
	assert.ErrorIs(t, err, idgen.ErrTaken, "Claim what is held")
	assert.NoError(t, first.Release(testContext(t), ""), "Release")
	waitNotified(t, first.Lost)
	assert.ErrorIs(t, first.Reserve(testContext(t), time.Unix(0, 300), time.Minute), retrysafe.ErrLeaseLost, "Reserve behind the release")
	second, err := other.Claim(testContext(t), r)
	assert.NoError(t, err, "Claim")
	assert.Equal(t, second.Reserved.UnixNano(), 200, "where the next one starts")
	assert.ErrorIs(t, first.Reserve(testContext(t), time.Unix(0, 300), time.Minute), retrysafe.ErrLeaseLost, "Reserve behind the next holder")
	kept, fence, _ := readReserved(t, look, o)
	assert.True(t, kept == 200 && fence == uint64(second.Fence), "%d of fence %d is kept", kept, fence)
	assert.NoError(t, second.Release(testContext(t), ""), "Release")
}

// TestWorkersForeignNode: a node that is not a reservation, or has a greater fence, is refused.
func TestWorkersForeignNode(t *testing.T) {
	t.Parallel()
	c, look := connect(t, long), rawClient(t)
	for text, want := range map[string]string{"hello": "root of their own", "1 18446744073709551615": "of a later holder"} {
		o := numbersOf(1, time.Hour)
		assert.NoError(t, claim(t, c, o).Release(testContext(t)), "Release")
		_, err := look.Set(node(o), []byte(text), -1)
		assert.NoError(t, err, "Set")
		_, err = zklock.NewWorkers(c.Backend, o).Claim(testContext(t))
		assert.True(t, err != nil && strings.Contains(err.Error(), want), "Claim: %v", err)
		eventually(t, "the lock is free", func() bool { return len(queue(t, look, "ids%2f"+o.Namespace+"%2f0")) == 0 })
		kept, _, err := look.Get(node(o))
		assert.True(t, err == nil && string(kept) == text, "it stays as it is (%v)", err)
	}
}

// TestWorkersContexts ends a claim that the server does not answer, and then lets the server
// answer: the number is free.
func TestWorkersContexts(t *testing.T) {
	t.Parallel()
	c, other := connect(t, long), connect(t, long)
	for _, op := range []int32{opCreate, opSetData} {
		o := numbersOf(1, 10*time.Second)
		c.proxy.setHook(func(asked int32, n int) fate { // called under the proxy's mutex
			if asked == op && n == 1 {
				c.proxy.Stall()
			}
			return pass
		})
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		_, err := zklock.NewWorkers(c.Backend, o).Claim(ctx)
		assert.ErrorIs(t, err, context.DeadlineExceeded, "Claim")
		cancel()
		c.proxy.setHook(nil)
		c.proxy.Flow()
		claim(t, other, o)
	}
}

func TestWorkersRefusals(t *testing.T) {
	t.Parallel()
	c := connect(t, long)
	for name, f := range map[string]func(){
		"no backend":       func() { zklock.NewWorkers(nil, nil) },
		"a long namespace": func() { zklock.NewWorkers(c.Backend, &idgen.WorkersOptions{Namespace: strings.Repeat("x", 129)}) },
		"a NUL":            func() { zklock.NewWorkers(c.Backend, &idgen.WorkersOptions{Namespace: "\x00"}) },
		"a short lease":    func() { zklock.NewWorkers(c.Backend, &idgen.WorkersOptions{Lease: time.Millisecond}) },
	} {
		func() {
			defer func() { assert.True(t, recover() != nil, "%s is refused", name) }()
			f()
		}()
	}
	_ = c.Close()
	_, err := zklock.NewWorkers(c.Backend, nil).Claim(testContext(t))
	assert.True(t, err != nil && !errors.Is(err, idgen.ErrNoWorker), "Claim on a backend that is closed: %v", err)
}

// TestWorkersLayout: the ids of a namespace have one layout, and a node with any other content is
// refused.
func TestWorkersLayout(t *testing.T) {
	t.Parallel()
	c := connect(t, long)
	o := numbersOf(1, 10*time.Second)
	assert.NoError(t, claim(t, c, o).Release(testContext(t)), "Release")
	fast := *o
	fast.Layout = idgen.Fast()
	_, err := zklock.NewWorkers(c.Backend, &fast).Claim(testContext(t))
	assert.ErrorIs(t, err, idgen.ErrLayout, "another layout")
	assert.Contains(t, err.Error(), idgen.Twitter().String(), "which there is")
	assert.NoError(t, claim(t, connect(t, long), o).Release(testContext(t)), "the same layout, by another process")
}
