package gateway_test

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/gateway"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// TestConnections tests that connections over the limit cost idle ones, and never a request. If
// each has a request, the new connection is closed.
func TestConnections(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"plain", "TLS"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			const most = 20
			slow := make(chan struct{})
			var asked atomic.Int64
			service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/slow" {
					asked.Add(1)
					<-slow
				}
				_, _ = io.WriteString(w, "done")
			}))
			t.Cleanup(service.Close)
			answerSlow := sync.OnceFunc(func() { close(slow) })
			t.Cleanup(answerSlow)
			g, err := gateway.New(retrysafe.New(memstore.New(nil), nil), &gateway.Options{
				Upstreams: []string{service.URL}, Routes: []gateway.Route{{Match: "POST /**"}},
			})
			assert.NoError(t, err, "gateway")
			mon := gateway.NewMonitor(nil)
			figures := mon.Handler()
			l, err := net.Listen("tcp", "127.0.0.1:0")
			assert.NoError(t, err, "listen")
			s := gateway.NewServer(g, &gateway.ServerOptions{Connections: most, Logger: slog.New(slog.DiscardHandler)})
			mon.WatchServer(s)
			t.Cleanup(func() { _ = s.Close() })
			dial := func() (net.Conn, error) { return net.Dial("tcp", l.Addr().String()) }
			if way == "TLS" {
				certified := httptest.NewUnstartedServer(nil)
				certified.StartTLS()
				t.Cleanup(certified.Close)
				go s.ServeTLS(l, &tls.Config{Certificates: certified.TLS.Certificates}) //nolint:errcheck // ends with the test
				dial = func() (net.Conn, error) {
					return tls.Dial("tcp", l.Addr().String(), &tls.Config{InsecureSkipVerify: true})
				}
			} else {
				go s.Serve(l) //nolint:errcheck // ends with the test
			}
			n := 0
			ask := func(c net.Conn, path string) {
				n++
				fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\nIdempotency-Key: \"a key of this test that is long %d\"\r\nContent-Length: 1\r\n\r\nx", path, n)
			}
			answered := func(c net.Conn) error {
				_ = c.SetReadDeadline(time.Now().Add(time.Minute))
				resp, err := http.ReadResponse(bufio.NewReader(c), nil)
				if err != nil {
					return err
				}
				body, err := io.ReadAll(resp.Body)
				assert.True(t, err == nil && string(body) == "done", "answer: %d %q %v", resp.StatusCode, body, err)
				return nil
			}
			connect := func(path string) net.Conn {
				c, err := dial()
				assert.NoError(t, err, "connect")
				t.Cleanup(func() { _ = c.Close() })
				ask(c, path)
				return c
			}
			// Three times as many connections as allowed are opened, send a request, and stay idle.
			// One may arrive before those that were answered are known to be idle.
			patient := func(what string, done func() bool) {
				for end := time.Now().Add(3 * time.Minute); !done(); <-time.After(time.Millisecond) {
					assert.True(t, time.Now().Before(end), "%s", what)
				}
			}
			for range 3 * most {
				patient("a new connection beside idle ones", func() bool {
					c, err := dial()
					if err == nil {
						t.Cleanup(func() { _ = c.Close() })
						ask(c, "/fast")
						err = answered(c)
					}
					return err == nil
				})
			}
			patient("connections are ended", func() bool { return metric(t, figures, "retrysafe_connections") <= most })
			assert.True(t, metric(t, figures, "retrysafe_connections_ended_total") >= 2*most, "idle connections that were ended")

			var busy []net.Conn
			for range most {
				// Here too it may arrive before an idle one is known to be idle, and is refused
				// then.
				patient("a slow request beside idle connections", func() bool {
					c, err := dial()
					if err != nil {
						return false
					}
					t.Cleanup(func() { _ = c.Close() })
					ask(c, "/slow")
					has := func() bool { return asked.Load() > int64(len(busy)) }
					patient("it has a request, or is ended", func() bool { return has() || isEnded(c) })
					if !has() {
						return false
					}
					busy = append(busy, c)
					return true
				})
			}
			before := metric(t, figures, "retrysafe_connections_refused_total")
			for range 5 {
				c, err := dial() // over TLS the handshake already fails
				if err == nil {
					ask(c, "/fast")
					err = answered(c)
				}
				assert.True(t, err != nil, "a connection too many is answered")
			}
			assert.Equal(t, metric(t, figures, "retrysafe_connections_refused_total"), before+5, "refused connections")
			answerSlow()
			for _, c := range busy {
				assert.NoError(t, answered(c), "a request that was begun")
			}
			assert.NoError(t, answered(connect("/fast")), "a new connection when there is room")
		})
	}
}

// isEnded reports whether the other side has ended a connection on which it sends nothing.
func isEnded(c net.Conn) bool {
	_ = c.SetReadDeadline(time.Now().Add(time.Millisecond))
	_, err := c.Read(make([]byte, 1))
	return err != nil && !errors.Is(err, os.ErrDeadlineExceeded)
}
