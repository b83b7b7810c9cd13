package rueidisclient_test

import (
	"crypto/tls"
	"io"
	"net"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/adapters/rueidisclient"
	"github.com/retrysafe/retrysafe/redisclient"
)

// server accepts connections and passes each to serve.
func server(t *testing.T, serve func(net.Conn)) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				serve(c)
				_ = c.Close()
			}()
		}
	}()
	return l.Addr().String()
}

// TestTLSOrNot: an address with the wrong scheme gets an error that says what the server speaks.
func TestTLSOrNot(t *testing.T) {
	t.Parallel()
	secured := httptest.NewUnstartedServer(nil)
	secured.StartTLS()
	t.Cleanup(secured.Close)
	certificate := secured.TLS.Certificates[0]
	for name, one := range map[string]struct {
		scheme, want string
		serve        func(net.Conn)
	}{
		"no answer":      {"rediss", "write redis:// instead", func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }},
		"another answer": {"rediss", "write redis:// instead", func(c net.Conn) { _, _ = c.Write([]byte("-ERR unknown command\r\n")); _, _ = io.Copy(io.Discard, c) }},
		"an alert":       {"redis", "write rediss:// instead", func(c net.Conn) { _, _ = c.Write([]byte{21, 3, 1, 0, 2, 2, 70}); _, _ = io.Copy(io.Discard, c) }},
		"no certificate": {"rediss", "certificate", func(c net.Conn) {
			_ = tls.Server(c, &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{certificate}}).Handshake()
		}},
		"closed": {"redis", "write rediss:// instead", func(c net.Conn) {
			_ = tls.Server(c, &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{certificate}}).Handshake()
			_ = c.(*net.TCPConn).CloseWrite()
			_, _ = io.Copy(io.Discard, c)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, err := redisclient.ParseURL(one.scheme + "://" + server(t, one.serve))
			if err != nil {
				t.Fatal(err)
			}
			client, err := rueidisclient.Open(a)
			if err == nil {
				_ = client.Close()
				t.Fatal("Open succeeds")
			}
			if !strings.Contains(err.Error(), one.want) || name == "no certificate" && strings.Contains(err.Error(), "instead") {
				t.Errorf("the error is %q, want %q in it", err, one.want)
			}
		})
	}
}
