package zklock

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/retrysafe/retrysafe/lock"
)

// Options say how to reach the servers and where the locks are; nil is valid.
type Options struct {
	// Session is how long the server keeps the locks of a silent process; default 10 s, at least
	// 100 ms. Servers have their own limits, by default 2 and 20 of their ticks (4 s and 40 s), and
	// use the nearest one.
	Session time.Duration
	// Root is the parent node of the locks and of the reservations of [NewWorkers]; default
	// "/retrysafe/locks". It is created if it is missing.
	Root string
	// ACL says who may use the created nodes; default everyone, as in ZooKeeper.
	ACL []zk.ACL
	// Scheme and Auth are the client's credentials, such as "digest" and "user:password"; default
	// none.
	Scheme string
	Auth   []byte
	// Dialer makes connections, for example with TLS; default [net.DialTimeout].
	Dialer zk.Dialer
	// Logger gets the client's messages about failed connections; default [slog.Default].
	Logger *slog.Logger
}

// Backend keeps locks in ZooKeeper, in one session. It can be used concurrently. Several lockers
// may share it.
type Backend struct {
	o            Options
	conn         *zk.Conn
	tasks        sync.WaitGroup // goroutines that may outlive their caller
	noContainers atomic.Bool    // the server has no containers

	mu         sync.Mutex
	session    *session
	serverConn net.Conn // to the server
	places     map[placeKey]*queuePlace
	watches    map[string]*nodeWatch
	closed     bool
	ready      chan struct{} // closed with the first session
}

var _ lock.Backend = (*Backend)(nil)

// Open starts a session with one of the servers, each given as "host:port". It waits for the
// session until ctx ends. Call Close at the end.
func Open(ctx context.Context, servers []string, o *Options) (*Backend, error) {
	b := &Backend{
		session: newSession(), places: make(map[placeKey]*queuePlace), watches: make(map[string]*nodeWatch),
		ready: make(chan struct{}),
	}
	if o != nil {
		b.o = *o
	}
	if err := b.o.setDefaults(); err != nil {
		return nil, err
	}
	conn, events, err := zk.Connect(servers, b.o.Session, zk.WithDialer(b.dial), zk.WithEventCallback(b.handleEvent),
		zk.WithLogger(logger{b.o.Logger}), zk.WithLogInfo(false))
	if err != nil {
		return nil, fmt.Errorf("zklock: the servers %q: %w", servers, err)
	}
	b.conn = conn
	b.tasks.Go(func() {
		for range events { // the callback has seen them; closed when the client has ended
		}
	})
	select {
	case <-b.ready:
	case <-ctx.Done():
		_ = b.Close()
		return nil, fmt.Errorf("zklock: no session with any of %q; are they there, and do they serve clients? %w", servers, context.Cause(ctx))
	}
	if b.o.Scheme != "" {
		if err := b.callClient(ctx, func() error { return conn.AddAuth(b.o.Scheme, b.o.Auth) }); err != nil {
			_ = b.Close()
			return nil, fmt.Errorf("zklock: the server does not take who we are by the scheme %q: %w", b.o.Scheme, err)
		}
	}
	return b, nil
}

// Close ends the session and with it all its locks; their holders are notified. It waits for calls
// in progress, for some seconds if the server does not answer. It returns nil, and can be called
// again.
func (b *Backend) Close() error {
	b.mu.Lock()
	first := !b.closed
	if first {
		b.closed = true
		b.session.markEnded()
	}
	b.mu.Unlock()
	if first {
		b.conn.Close()
		b.mu.Lock()
		if b.serverConn != nil { // the client may be waiting for an answer on it
			_ = b.serverConn.Close()
		}
		b.mu.Unlock()
	}
	b.tasks.Wait()
	return nil
}

func (o *Options) setDefaults() error {
	if o.Session == 0 {
		o.Session = 10 * time.Second
	}
	if o.Session < 100*time.Millisecond || o.Session > 24*time.Hour {
		return fmt.Errorf("zklock: Session is %v; it must be 100 ms to 24 h", o.Session)
	}
	if o.Root == "" {
		o.Root = "/retrysafe/locks"
	}
	o.Root = strings.TrimSuffix(o.Root, "/")
	if o.Root == "" || o.Root[0] != '/' {
		return fmt.Errorf("zklock: Root is %q; it must begin with a slash and name a node", o.Root)
	}
	if len(o.ACL) == 0 {
		o.ACL = zk.WorldACL(zk.PermAll)
	}
	if o.Dialer == nil {
		o.Dialer = net.DialTimeout
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return nil
}

// logger logs the client's messages. They contain no nodes.
type logger struct{ to *slog.Logger }

func (l logger) Printf(format string, args ...any) {
	l.to.Warn("zookeeper: " + fmt.Sprintf(format, args...))
}

var errClosed = errors.New("zklock: the backend is closed, and its session has ended")

// startTask runs f on a goroutine; Close waits for it.
func (b *Backend) startTask(f func()) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return errClosed
	}
	b.tasks.Go(f)
	return nil
}

// callClient makes calls of the client, which take no context. It stops waiting when ctx ends, and
// the calls continue.
func (b *Backend) callClient(ctx context.Context, f func() error) error {
	done := make(chan error, 1)
	if err := b.startTask(func() { done <- f() }); err != nil {
		return err
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
