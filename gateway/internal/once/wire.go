package once

import (
	"errors"
	"net"
	"sync"
	"syscall"
)

// wire is what the bytes of a connection of HTTP/1.1 pass, below TLS. It knows whether any byte of
// the request was given to the kernel, and can be cut so that none is later.
//
// What a service sends unasked must not be taken for an answer. So the first bytes of a request
// leave only if nothing has come since the answer before it.
type wire struct {
	net.Conn

	raw       syscall.RawConn // nil: the connection has none
	encrypted bool            // what comes may be TLS's own, such as a session ticket
	record    tlsRecord       // that is being read, if the connection is encrypted

	mu     sync.Mutex
	quiet  bool          // nothing may come before the request
	sent   bool          // the kernel may have some of the request
	begun  chan struct{} // closed once it has; nil: it does not matter
	failed bool          // a write has failed
	cut    bool
}

func newWire(c net.Conn) *wire { return &wire{Conn: c, raw: rawOf(c)} }

var (
	errUnasked = errors.New("the service has sent something that no request has asked for, or has closed the connection")
	errCut     = errors.New("the gateway has given this request up before it was sent")
)

// beginRequest begins a request. If quiet, nothing may have come before it is written.
func (w *wire) beginRequest(quiet bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.quiet, w.sent, w.begun = quiet, false, nil
}

// watchBegin returns a channel that is closed once the kernel has some of the request, and reports
// whether nothing has come that would prevent that.
func (w *wire) watchBegin() (begun <-chan struct{}, isQuiet bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.begun = make(chan struct{})
	return w.begun, !w.hasUnasked()
}

// hasUnasked reports whether something has come that no request has asked for. The caller holds
// w.mu.
func (w *wire) hasUnasked() bool {
	return w.quiet && (!w.record.isComplete() || w.hasUnread())
}

// hasFailed reports whether a write has failed. Other errors of a request are its own.
func (w *wire) hasFailed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failed
}

func (w *wire) wasSent() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sent
}

// Write counts bytes as sent before it writes them, since they may have left.
func (w *wire) Write(p []byte) (int, error) {
	first, err := w.beginWrite()
	if err != nil {
		return 0, err
	}
	n, err := w.Conn.Write(p)
	if first || err != nil {
		w.endWrite(first, n, err)
	}
	return n, err
}

// beginWrite reports whether a write is the first of its request.
func (w *wire) beginWrite() (first bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	first = !w.sent
	switch {
	case w.cut:
		err = errCut
	case first && w.hasUnasked():
		err = errUnasked
	}
	w.failed, w.sent = w.failed || err != nil, w.sent || err == nil
	return first, err
}

func (w *wire) endWrite(first bool, n int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failed = w.failed || err != nil
	switch {
	case first && n == 0 && err != nil: // the kernel accepted nothing of it
		w.sent = false
	case w.begun != nil:
		close(w.begun)
		w.begun = nil
	}
}

// Read follows the records of TLS.
func (w *wire) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	if w.encrypted {
		w.record.follow(p[:n])
	}
	return n, err
}

// cutOff closes the connection. Nothing is written later.
func (w *wire) cutOff() {
	w.mu.Lock()
	w.cut = true
	w.mu.Unlock()
	_ = w.Conn.Close()
}

// tlsRecord follows the records of TLS (RFC 8446, section 5.1), to know whether one has arrived in
// part: the rest of an unasked answer may complete it when a request was written.
type tlsRecord struct{ header, length, left int }

func (r *tlsRecord) isComplete() bool { return r.header == 0 && r.left == 0 }

func (r *tlsRecord) follow(p []byte) {
	for len(p) > 0 {
		if r.left > 0 {
			n := min(r.left, len(p))
			r.left, p = r.left-n, p[n:]
			continue
		}
		// a header has the type, the version in two bytes and the length in two
		switch r.header++; r.header {
		case 4:
			r.length = int(p[0]) << 8
		case 5:
			r.left, r.header = r.length|int(p[0]), 0
		}
		p = p[1:]
	}
}
