package attacks_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/gateway/config"
	"github.com/retrysafe/retrysafe/internal/assert"
)

// resident returns how many bytes of this process are in memory.
func resident(t *testing.T) int64 {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	assert.NoError(t, err, "status of the process")
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	assert.NoError(t, err, "resident memory")
	return kib << 10
}

// TestHalfSentBodies tests that four hundred bodies of a mebibyte that lack six bytes take no more
// memory than there is room for, and that other customers are served in the meantime.
func TestHalfSentBodies(t *testing.T) { //nolint:paralleltest // it measures the memory of the process
	if runtime.GOOS != "linux" {
		t.Log("the memory of the process is not measured here")
	}
	debug.FreeOSMemory()
	x := newTarget(t, "limits: {body_time: 10m}\n", created)
	const attackers = 400
	var all sync.WaitGroup
	var conns [attackers]net.Conn
	// shared by all, so that the test measures the server's memory
	part := bytes.Repeat([]byte("x"), 1<<20-6)
	for i := range attackers {
		all.Go(func() {
			c, err := net.Dial("tcp", x.addr)
			assert.NoError(t, err, "dial")
			conns[i] = c
			_ = c.SetWriteDeadline(time.Now().Add(5 * time.Minute))
			_, _ = fmt.Fprintf(c, "POST /orders HTTP/1.1\r\nHost: shop\r\nContent-Length: %d\r\n%s\r\n", 1<<20, key(i))
			_, _ = c.Write(part) // it may be cut off
		})
	}
	defer func() {
		for _, c := range conns {
			if c != nil {
				_ = c.Close()
			}
		}
	}()
	all.Wait()
	most := int64(0)
	for i := range 200 {
		assert.Equal(t, x.send(t, post("/orders", strings.Repeat("y", 1000), key(10_000+i))), "201", "a customer")
		if runtime.GOOS == "linux" && i%20 == 0 {
			debug.FreeOSMemory() // what is not held any more: how much that is depends on the load
			most = max(most, resident(t))
		}
	}
	x.served(t, post("/orders", strings.Repeat("y", 500_000), key(20_000)), "a customer with a large body")
	assert.True(t, most < room, "memory: %d MiB", most>>20)
}

// served sends a request until there is room for it, as its client would.
func (x *target) served(t *testing.T, request, what string) {
	t.Helper()
	got := ""
	for end := time.Now().Add(time.Minute); got != "201" && time.Now().Before(end); {
		got = x.send(t, request)
		assert.True(t, got == "201" || got == "503 no-room", "%s: %s", what, got)
	}
	assert.Equal(t, got, "201", "%s", what)
}

// TestBodiesAreNotCopied tests that a body that is with the service takes no memory besides what
// the guard keeps of it: its own buffer, which there is room for, and what its handler may read
// later.
func TestBodiesAreNotCopied(t *testing.T) { //nolint:paralleltest // it measures the memory of the process
	const n, size = 12, 1 << 20
	body := strings.Repeat("x", size)
	read, answer := make(chan struct{}, n), make(chan struct{})
	x := newTarget(t, "", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		read <- struct{}{}
		<-answer
		w.WriteHeader(http.StatusCreated)
	})
	requests := make([]string, n)
	for i := range requests {
		requests[i] = post("/orders", body, key(i))
	}
	before := liveHeap()
	var all sync.WaitGroup
	for _, request := range requests {
		all.Go(func() { assert.Equal(t, x.send(t, request), "201", "a large body") })
	}
	for range n {
		<-read
	}
	grown := liveHeap() - before
	close(answer)
	all.Wait()
	runtime.KeepAlive(requests)
	assert.True(t, grown < n*size*5/2, "%d bytes in memory for each body of %d", grown/n, size)
}

// liveHeap returns how many bytes are in use, without what pools keep.
func liveHeap() int64 {
	var m runtime.MemStats
	for range 3 {
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestSlowBodiesGiveWay tests that slow bodies are evicted, and answered so, when others need their
// room.
func TestSlowBodiesGiveWay(t *testing.T) {
	t.Parallel()
	x := newTarget(t, "limits: {bodies: 1MiB, body_time: 10m}\ndefaults: {max_body: 400KiB}\n", created)
	var slow [4]net.Conn
	for i := range slow {
		c, err := net.Dial("tcp", x.addr)
		assert.NoError(t, err, "dial")
		defer c.Close()
		slow[i] = c
		_, err = fmt.Fprintf(c, "POST /orders HTTP/1.1\r\nHost: shop\r\nContent-Length: 300000\r\n%s\r\n%s", key(i), strings.Repeat("x", 250_000))
		assert.NoError(t, err, "send")
	}
	for i := range 8 {
		x.served(t, post("/orders", strings.Repeat("y", 300_000), key(100+i)), "a customer")
	}
	told := 0
	for end := time.Now().Add(time.Minute); told == 0 && time.Now().Before(end); {
		for _, c := range slow {
			_ = c.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
			answer, _ := io.ReadAll(c)
			if strings.Contains(string(answer), `"code":"no-room"`) && strings.Contains(string(answer), "Retry-After: ") {
				told++
			}
		}
	}
	assert.True(t, told >= 1 && told <= len(slow), "slow ones that gave way: %d", told)
	assert.Equal(t, x.reached.Load(), int64(8), "requests that reached the service")
}

// TestRoomForEachBody tests that a configuration without room for one body is refused.
func TestRoomForEachBody(t *testing.T) {
	t.Parallel()
	c, err := config.Parse([]byte("upstream: http://127.0.0.1:9\nlimits: {bodies: 1MiB}\n"), nil)
	assert.NoError(t, err, "parse")
	_, _, err = c.Options()
	assert.Contains(t, fmt.Sprint(err), "give room for several", "what is wrong")
}
