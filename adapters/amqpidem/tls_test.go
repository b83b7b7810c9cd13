package amqpidem_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/adapters/amqpidem"
	"github.com/retrysafe/retrysafe/internal/assert"
)

// behindTLS returns the address of a TLS proxy for the broker, and the CA of its certificate.
func behindTLS(t *testing.T, to string) (string, *x509.CertPool) {
	t.Helper()
	web := httptest.NewUnstartedServer(nil) // it has a certificate for 127.0.0.1
	web.StartTLS()
	roots := x509.NewCertPool()
	roots.AddCert(web.Certificate())
	web.Close()
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: web.TLS.Certificates})
	assert.NoError(t, err, "listen")
	var work sync.WaitGroup
	work.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			work.Go(func() {
				defer c.Close()
				out, err := net.Dial("tcp", to)
				if err != nil {
					return
				}
				defer out.Close()
				work.Go(func() {
					_, _ = io.Copy(c, out)
					_ = c.Close()
				})
				_, _ = io.Copy(out, c)
			})
		}
	})
	t.Cleanup(func() { _ = l.Close(); work.Wait() })
	return l.Addr().String(), roots
}

// TestTLS: connections use Dial and TLS of the options, also when they are replaced. An untrusted
// certificate is refused.
func TestTLS(t *testing.T) {
	t.Parallel()
	url, queue := rabbit(t).vhost(t), uniqueQueue()
	addr, roots := behindTLS(t, rabbit(t).addr)
	secure := strings.Replace(urlThrough(url, addr), "amqp://", "amqps://", 1)
	var dials atomic.Int64
	dialing := amqpidem.Dialing{
		Logger: quiet, TLS: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			dials.Add(1)
			return new(net.Dialer).DialContext(ctx, network, addr)
		},
	}
	s := open(t, secure, queue, &amqpidem.Options{Delays: short, Dialing: dialing})
	publish(t, publisher(t, url, nil), queue, "m")
	assert.NoError(t, receive(t, s).Retry(t.Context(), time.Millisecond), "Retry")
	assert.NoError(t, receive(t, s).Ack(t.Context()), "Ack")
	assert.Equal(t, int(dials.Load()), 2, "connections")
	_, err := amqpidem.Open(t.Context(), secure, queue, &amqpidem.Options{Dialing: quietDialing()})
	assert.True(t, err != nil && !strings.Contains(err.Error(), "guest:"), "an unknown certificate is refused: %v", err)
	assert.Contains(t, err.Error(), "certificate", "the error")
}
