package attacks_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/gateway"
	"github.com/retrysafe/retrysafe/gateway/config"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// target is a gateway that a file configures, and its service.
type target struct {
	addr    string
	engine  *retrysafe.Engine
	reached atomic.Int64 // requests that reached the service
}

var silent = slog.New(slog.DiscardHandler)

func newTarget(t *testing.T, file string, service http.HandlerFunc) *target {
	t.Helper()
	x := new(target)
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x.reached.Add(1)
		service(w, r)
	}))
	t.Cleanup(up.Close)
	c, err := config.Parse([]byte("upstream: "+up.URL+"\n"+file), nil)
	assert.NoError(t, err, "parse")
	o, policy, err := c.Options()
	assert.NoError(t, err, "options")
	o.Logger = silent
	x.engine = retrysafe.New(memstore.New(nil), &retrysafe.Options{Policy: policy, Logger: silent})
	g, err := gateway.New(x.engine, o)
	assert.NoError(t, err, "gateway")
	server := c.ServerOptions()
	server.Logger = silent
	s := gateway.NewServer(g, server)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	assert.NoError(t, err, "listen")
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() {
		_ = s.Close()
		_ = g.Close()
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = x.engine.Shutdown(ctx)
	})
	x.addr = l.Addr().String()
	return x
}

// send sends the bytes of a request on a new connection, and returns the status and the code of the
// problem or the body.
func (x *target) send(t *testing.T, bytes string) string {
	t.Helper()
	c, err := net.Dial("tcp", x.addr)
	assert.NoError(t, err, "dial")
	defer c.Close()
	assert.NoError(t, c.SetDeadline(time.Now().Add(time.Minute)), "deadline")
	_, err = io.WriteString(c, bytes)
	assert.NoError(t, err, "send")
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	assert.NoError(t, err, "the answer to %q", bytes)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	assert.NoError(t, err, "the body of the answer to %q", bytes)
	text := strings.TrimSpace(string(body))
	if _, code, ok := strings.Cut(text, `"code":"`); ok {
		text, _, _ = strings.Cut(code, `"`)
	}
	return strings.TrimSpace(fmt.Sprint(resp.StatusCode, " ", text))
}

// post returns a request with fields, each with its line break.
func post(path, body string, fields ...string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: shop\r\nContent-Length: %d\r\n%s\r\n%s", path, len(body), strings.Join(fields, ""), body)
}
