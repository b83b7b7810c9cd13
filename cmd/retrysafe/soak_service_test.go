package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// service is the upstream of the gateway in a soak. It fails in every way that it knows, and
// records what it really did.
type service struct {
	s      *soak
	addr   string
	server *http.Server
	calm   atomic.Bool
	worked chan struct{} // signals, if a receiver waits, that some work was just done

	mu       sync.Mutex
	listener net.Listener
	books    map[string]*book    // by key
	made     map[string]*message // by the token in each answer
	busy     int
	outages  int
}

// book is what the service has recorded for one key.
type book struct {
	effects int
	fence   uint64
	works   []*work
}

// work is one request at the service.
type work struct {
	begin, end time.Time
	undone     bool // the answer, or an operator, says that nothing was done
}

// message is an answer as the service made it.
type message struct {
	key         string
	status      int
	header      http.Header
	body        []byte
	sum         [sha256.Size]byte
	acted, kept bool // kept: the gateway must replay it to every duplicate
}

// keepable is the largest body that the gateway stores.
const keepable = 1 << 20

func newService(t *testing.T, s *soak) *service {
	t.Helper()
	v := &service{s: s, worked: make(chan struct{}), books: map[string]*book{}, made: map[string]*message{}}
	v.server = &http.Server{Handler: v, ReadHeaderTimeout: time.Minute, ErrorLog: silentLogger()}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	assert.NoError(t, err, "listen")
	v.addr, v.listener = l.Addr().String(), l
	go func() { _ = v.server.Serve(l) }()
	t.Cleanup(func() { _ = v.server.Close() })
	return v
}

// changeWeather sometimes closes the service to new connections, and closes idle ones, until ctx
// ends.
func (v *service) changeWeather(ctx context.Context, r *rand.Rand) {
	for sleepFor(ctx, 500*time.Millisecond+rand.N(1500*time.Millisecond)) {
		v.server.SetKeepAlivesEnabled(false)
		_ = v.listener.Close()
		sleepFor(ctx, 20*time.Millisecond+time.Duration(r.IntN(300))*time.Millisecond)
		for {
			l, err := net.Listen("tcp", v.addr)
			if err == nil {
				v.listener = l
				break
			}
			// An outgoing connection may have the port briefly.
			sleepFor(context.Background(), 10*time.Millisecond)
		}
		v.server.SetKeepAlivesEnabled(true)
		go func(l net.Listener) { _ = v.server.Serve(l) }(v.listener)
		v.outages++
	}
}

// servedRequest is one request while it is served.
type servedRequest struct {
	v     *service
	w     http.ResponseWriter
	r     *rand.Rand
	key   string
	acted bool
}

// fates are the possible outcomes of a request, by weight. Most succeed.
var fates = []struct {
	weight int
	play   func(*servedRequest)
}{
	{50, func(c *servedRequest) {
		c.doWork()
		c.sendAnswer([]int{200, 201, 202, 204}[c.r.IntN(4)], 1+c.r.IntN(9000), true)
	}},
	{5, func(c *servedRequest) { c.doWork(); c.inParts("application/json") }},
	{4, func(c *servedRequest) { c.doWork(); c.inParts("text/event-stream") }},
	{4, func(c *servedRequest) { c.doWork(); c.sendAnswer(201, keepable+1+c.r.IntN(300_000), true) }},
	{1, func(c *servedRequest) { c.doWork(); c.sendAnswer(201, keepable, true) }},
	{4, func(c *servedRequest) { c.doWork(); c.sendAnswer(500, 50, !c.v.s.reexecute) }},
	{2, func(c *servedRequest) {
		c.doWork()
		c.w.Header().Set("Idempotency-Outcome", "executed")
		c.sendAnswer(403, 50, true)
	}},
	{2, func(c *servedRequest) { c.doWork(); c.sendAnswer(409, 50, !c.v.s.reexecute) }},
	{3, func(c *servedRequest) { c.sendAnswer(422, 50, true) }},
	{4, func(c *servedRequest) { c.sendAnswer(429, 50, false) }},
	{4, func(c *servedRequest) {
		c.w.Header().Set("Idempotency-Outcome", "not-executed")
		c.sendAnswer(503, 50, false)
	}},
	{3, func(c *servedRequest) { c.doWork(); c.hangUp(false) }},
	{2, func(c *servedRequest) { c.doWork(); c.hangUp(true) }},
	{2, func(c *servedRequest) { c.hangUp(c.r.IntN(2) == 0) }},
	{3, func(c *servedRequest) { c.doWork(); c.sendHalf(c.newMessage(201, 2+c.r.IntN(3000), true)) }},
	{1, func(c *servedRequest) { c.doWork(); c.sendHalf(c.newMessage(201, 3*keepable, true)) }},
	{3, func(c *servedRequest) { c.doWork(); c.waitBetween(answerTime, maxRun*2/3); c.sendAnswer(201, 80, true) }},
	{2, func(c *servedRequest) { c.waitBetween(answerTime, maxRun*2/3); c.doWork(); c.sendAnswer(201, 80, true) }},
	{1, func(c *servedRequest) { c.waitBetween(answerTime, maxRun*2/3); c.sendAnswer(429, 50, false) }},
	{1, func(c *servedRequest) { c.doWork(); c.waitBetween(maxRun, maxRun+lease); c.sendAnswer(201, 80, true) }},
	{1, func(c *servedRequest) { c.waitBetween(maxRun, maxRun+lease); c.doWork(); c.sendAnswer(201, 80, true) }},
}

// ServeHTTP implements [http.Handler].
func (v *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	key := r.Header.Get("Idempotency-Key")
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the gateway died while it sent: nothing was done
	}
	if string(body) != payloadOf(key) {
		v.s.report(once, "key %s came with the payload %.80q", key, body)
	}
	x, n := v.beginWork(key, r)
	defer v.endWork(x)
	c := &servedRequest{v: v, w: w, r: v.s.newRand("service", key, n), key: key}
	time.Sleep(time.Duration(c.r.IntN(20)) * time.Millisecond)
	if v.calm.Load() {
		c.doWork()
		c.sendAnswer(200, 100, true)
		return
	}
	all := 0
	for _, f := range fates {
		all += f.weight
	}
	at := c.r.IntN(all)
	for _, f := range fates {
		if at -= f.weight; at < 0 {
			f.play(c)
			return
		}
	}
}

// beginWork records a request. The gateway sends at most one for each attempt, and fences grow.
// Under Refuse it sends another one only if each earlier answer said that nothing was done.
func (v *service) beginWork(key string, r *http.Request) (x *work, n int) {
	fence, err := strconv.ParseUint(r.Header.Get("Idempotency-Fence"), 10, 64)
	v.mu.Lock()
	defer v.mu.Unlock()
	b := v.books[key]
	if b == nil {
		b = new(book)
		v.books[key] = b
	}
	switch {
	case err != nil:
		v.s.report(once, "key %s came without a fence: %v", key, err)
	case fence == b.fence:
		v.s.report(once, "key %s was sent twice by one attempt, fence %d", key, fence)
	case fence < b.fence && !v.s.reexecute:
		// Under Reexecute an old attempt may run beside a new one.
		v.s.report(once, "key %s came with fence %d after %d", key, fence, b.fence)
	case !v.s.reexecute && slices.ContainsFunc(b.works, func(w *work) bool { return !w.undone }):
		v.s.report(once, "key %s was sent again, and the first request may have acted", key)
	}
	b.fence = max(b.fence, fence)
	x = &work{begin: time.Now()}
	b.works = append(b.works, x)
	v.busy++
	return x, len(b.works)
}

func (v *service) endWork(x *work) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.busy--
	x.end = time.Now()
	select {
	case v.worked <- struct{}{}:
	default:
	}
}

// undoWork records that an operator said that nothing was done.
func (v *service) undoWork(key string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if b := v.books[key]; b != nil {
		for _, x := range b.works {
			x.undone = true
		}
	}
}

// countEffects returns how often a key has had an effect.
func (v *service) countEffects(key string) int {
	v.mu.Lock()
	defer v.mu.Unlock()
	if b := v.books[key]; b != nil {
		return b.effects
	}
	return 0
}

// worksOf returns the requests of a key so far.
func (v *service) worksOf(key string) (all []work) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if b := v.books[key]; b != nil {
		for _, w := range b.works {
			all = append(all, *w)
		}
	}
	return all
}

// isIdle reports whether no request runs.
func (v *service) isIdle() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.busy == 0
}

// findMessage returns the answer with a token, or nil.
func (v *service) findMessage(token string) *message {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.made[token]
}

// hasBody reports whether one of a key's answers has this length and digest.
func (v *service) hasBody(key string, size int64, sum string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, m := range v.made {
		if m.key == key && int64(len(m.body)) == size && fmt.Sprintf("%x", m.sum) == sum {
			return true
		}
	}
	return false
}

func (c *servedRequest) doWork() {
	c.v.mu.Lock()
	defer c.v.mu.Unlock()
	b := c.v.books[c.key]
	if b.effects++; b.effects > 1 && !c.v.s.reexecute {
		c.v.s.report(once, "key %s has %d effects", c.key, b.effects)
	}
	c.acted = true
}

// newMessage makes a unique answer.
func (c *servedRequest) newMessage(status, size int, kept bool) *message {
	c.v.mu.Lock()
	defer c.v.mu.Unlock()
	token := fmt.Sprint(c.key, "-answer-", len(c.v.made))
	m := &message{key: c.key, status: status, header: c.w.Header(), acted: c.acted, kept: kept}
	if status == http.StatusNoContent {
		size = 0
	}
	line := []byte(token + "\n")
	m.body = bytes.Repeat(line, size/len(line)+1)[:size]
	m.sum = sha256.Sum256(m.body)
	c.v.made[token] = m
	m.header.Set("X-Answer", token)
	m.header.Set("Location", "/made/"+token)
	m.header["X-Several"] = []string{"one " + token, "two"}
	m.header.Set("Set-Cookie", "session="+token)
	if status != http.StatusNoContent && m.header.Get("Content-Type") == "" {
		m.header.Set("Content-Type", "application/json")
	}
	m.header = m.header.Clone()
	return m
}

func (c *servedRequest) sendAnswer(status, size int, kept bool) {
	m := c.newMessage(status, size, kept)
	if !m.acted && !m.kept {
		c.v.undoWork(c.key)
	}
	c.w.WriteHeader(status)
	_, _ = c.w.Write(m.body)
}

// inParts sends the answer in parts, each as soon as it is ready.
func (c *servedRequest) inParts(kind string) {
	c.w.Header().Set("Content-Type", kind)
	m := c.newMessage(200, 3000+c.r.IntN(3000), true)
	c.w.WriteHeader(m.status)
	for part := range slices.Chunk(m.body, 1000) {
		_, _ = c.w.Write(part)
		_ = http.NewResponseController(c.w).Flush()
		time.Sleep(time.Duration(c.r.IntN(30)) * time.Millisecond)
	}
}

func (c *servedRequest) waitBetween(from, to time.Duration) {
	time.Sleep(from + time.Duration(c.r.Int64N(int64(to-from))))
}

// sendHalf sends a part of an answer.
func (c *servedRequest) sendHalf(m *message) {
	c.w.Header().Set("Content-Length", strconv.Itoa(len(m.body)))
	c.w.WriteHeader(m.status)
	_, _ = c.w.Write(m.body[:len(m.body)/2])
	_ = http.NewResponseController(c.w).Flush()
	panic(http.ErrAbortHandler)
}

// hangUp closes the connection without an answer.
func (c *servedRequest) hangUp(reset bool) {
	conn, _, err := http.NewResponseController(c.w).Hijack()
	if err != nil {
		c.v.s.report(run, "hijack: %v", err)
		return
	}
	if tcp, ok := conn.(*net.TCPConn); ok && reset {
		_ = tcp.SetLinger(0)
	}
	if err := conn.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		c.v.s.report(run, "close: %v", err)
	}
}
