package check

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// listener is an HTTP server of an oracle.
type listener struct {
	address net.Addr
	server  *http.Server
	cancel  context.CancelFunc
	served  chan struct{}

	mu      sync.Mutex
	closed  bool
	running sync.WaitGroup
}

// startListener serves handler on addr: HOST:PORT, a port alone, or nothing for any free port.
// Without a host it is 127.0.0.1.
func startListener(addr string, handler http.Handler) (*listener, error) {
	if !strings.Contains(addr, ":") {
		addr = ":" + addr
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("check: listen on %q: %w", addr, err)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	if port == "" {
		port = "0"
	}
	ctx, cancel := context.WithCancel(context.Background())
	socket, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(host, port))
	if err != nil {
		cancel()
		return nil, fmt.Errorf("check: %w", err)
	}
	l := &listener{address: socket.Addr(), cancel: cancel, served: make(chan struct{})}
	l.server = &http.Server{
		Handler:           l.trackRequests(handler),
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    256 << 10,
		ErrorLog:          log.New(io.Discard, "", 0),
	}
	go func() {
		defer close(l.served)
		_ = l.server.Serve(socket) // it ends with close
	}()
	return l, nil
}

// trackRequests lets close wait for requests.
func (l *listener) trackRequests(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !l.beginRequest() {
			panic(http.ErrAbortHandler)
		}
		defer l.running.Done()
		handler.ServeHTTP(w, r)
	})
}

func (l *listener) beginRequest() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.running.Add(1)
	return true
}

// baseURL returns the address as clients on this machine use it.
func (l *listener) baseURL() string {
	host, port, err := net.SplitHostPort(l.address.String())
	if ip := net.ParseIP(host); err == nil && ip.IsUnspecified() {
		host = "localhost"
	}
	return "http://" + net.JoinHostPort(host, port)
}

// close ends the listener, its connections and its requests, and waits for them.
func (l *listener) close() error {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.cancel()
	err := l.server.Close()
	<-l.served
	l.running.Wait()
	return err
}
