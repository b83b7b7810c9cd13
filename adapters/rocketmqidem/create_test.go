package rocketmqidem_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/adapters/rocketmqidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/servertest"
)

// lateBroker is a proxy before a broker. It keeps the first request that creates a topic until the
// client has given it up: until the second one comes. Then the broker gets both, so the answer to
// the first comes late.
type lateBroker struct {
	addr string

	mu      sync.Mutex
	creates int
	kept    []byte
}

func startLateBroker(tb testing.TB, broker string) *lateBroker {
	tb.Helper()
	l, proxy := new(lateBroker), servertest.NewProxy(tb, broker)
	l.addr = proxy.Addr
	proxy.Serve(func(client, server net.Conn) {
		servertest.Both(client, server, func() { l.forward(server, client) }, func() { proxy.Copy(client, server) })
	})
	return l
}

// forward passes requests on until one side ends. Each begins with its length, in four bytes.
func (l *lateBroker) forward(server io.Writer, client io.Reader) {
	for {
		size := make([]byte, 4)
		if _, err := io.ReadFull(client, size); err != nil {
			return
		}
		request := bytes.NewBuffer(size)
		if _, err := io.CopyN(request, client, int64(binary.BigEndian.Uint32(size))); err != nil {
			return
		}
		if _, err := server.Write(l.delay(request.Bytes())); err != nil {
			return
		}
	}
}

// delay returns what the broker gets for a request.
func (l *lateBroker) delay(request []byte) []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !bytes.Contains(request, []byte(`"code":17,`)) { // UPDATE_AND_CREATE_TOPIC
		return request
	}
	l.creates++
	if l.creates == 1 {
		l.kept = request
		return nil
	}
	both := append(l.kept, request...)
	l.kept = nil
	return both
}

func (l *lateBroker) countCreates() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.creates
}

// TestCreateOnALateBroker: the client ends a request after 5 s; Create asks again while its own
// time lasts.
func TestCreateOnALateBroker(t *testing.T) {
	t.Parallel()
	late := startLateBroker(t, sharedBroker(t).Broker)
	q := newQueue(t, sharedBroker(t), func(_ *rocketmqidem.Options, topic *rocketmqidem.TopicOptions) { topic.Brokers = []string{late.addr} })
	n := late.countCreates()
	assert.True(t, n > 3, "%d requests for three topics, one of them at least twice", n)
	s := q.openSource(t)
	assert.NoError(t, s.Close(), "Close")
}

// TestCreateEndsWithItsTime: a broker that never answers costs Options.Timeout, and the error says
// what is missing.
func TestCreateEndsWithItsTime(t *testing.T) {
	t.Parallel()
	r := sharedBroker(t)
	silent := servertest.StartProxy(t, r.Broker)
	silent.Stall()
	o := &rocketmqidem.Options{Topic: "orders" + rand.Text(), Group: "stock" + rand.Text(), Timeout: 50 * time.Millisecond, Logger: quiet}
	err := rocketmqidem.Create(t.Context(), &rocketmqidem.Servers{NameServers: []string{r.NameServer}},
		&rocketmqidem.TopicOptions{Brokers: []string{silent.Addr}}, o)
	assert.True(t, errors.Is(err, context.DeadlineExceeded), "Create: %v", err)
}
