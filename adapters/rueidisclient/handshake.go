package rueidisclient

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
)

// openConn opens a connection, with TLS if conf is not nil. Its errors say whether the server may
// be one without TLS.
func openConn(ctx context.Context, addr string, d *net.Dialer, conf *tls.Config) (net.Conn, error) {
	if d.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d.Timeout)
		defer cancel()
	}
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	if conf == nil {
		return &plainConn{Conn: conn}, nil
	}
	if conf.ServerName == "" {
		conf = conf.Clone()
		conf.ServerName, _, _ = net.SplitHostPort(addr) // it was dialled, so it has a port
	}
	secured := tls.Client(conn, conf)
	if err := secured.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, handshakeError(err)
	}
	return secured, nil
}

// handshakeError adds what may be wrong if the server answered with something else than TLS, or not
// at all. A server without TLS waits for the end of a line and does not answer.
func handshakeError(err error) error {
	var plain tls.RecordHeaderError
	if !errors.As(err, &plain) && !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, os.ErrDeadlineExceeded) {
		return err // it has TLS, and the handshake failed
	}
	return fmt.Errorf("the server did not answer the TLS handshake: if it has no TLS, write redis:// instead of rediss://, "+
		"or redis+sentinel:// or redis+cluster:// instead of rediss+…: %w", err)
}

// errNeedsTLS means that a server with TLS got a command without it.
var errNeedsTLS = errors.New("the server answered with TLS: write rediss:// instead of redis://, or rediss+sentinel:// or rediss+cluster://")

// plainConn is a connection without TLS. It looks at the first answer.
type plainConn struct {
	net.Conn
	answered bool // only used by the goroutine that reads
}

// Read implements [net.Conn].
func (c *plainConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	switch {
	case c.answered:
	case n > 0 && b[0] == tlsAlert: // no answer of Redis begins so
		return 0, errNeedsTLS
	case n > 0:
		c.answered = true
	case errors.Is(err, io.EOF):
		return 0, fmt.Errorf("the server closed the connection without an answer; if it has TLS, write rediss:// instead of redis://: %w", err)
	}
	return n, err
}

// tlsAlert is the first byte of an alert, with which a server of TLS refuses what is not.
const tlsAlert = 21
