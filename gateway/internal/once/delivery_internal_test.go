package once

import (
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// TestUnasked: what comes on an idle connection is not passed on, and the answer to a request is,
// also if net/http says that the connection is idle when the next request already has it.
func TestUnasked(t *testing.T) {
	t.Parallel()
	for late, want := range map[bool]string{false: "0 " + errUnasked.Error(), true: "6 <nil>"} {
		near, far := net.Pipe()
		m := newMeteredConn(near)
		go io.Copy(io.Discard, far) //nolint:errcheck // until it is closed
		first, second := new(Delivery), new(Delivery)
		first.on(m, false)
		_, err := m.Write([]byte("request"))
		assert.NoError(t, err, "the first request")
		if !late {
			first.noteIdle()
		}
		read := make(chan string)
		go func() {
			n, err := m.Read(make([]byte, 10))
			read <- fmt.Sprint(n, " ", err)
		}()
		if late {
			second.on(m, true)
			_, err = m.Write([]byte("request"))
			assert.NoError(t, err, "the second request")
			first.noteIdle()
		}
		_, err = far.Write([]byte("answer"))
		assert.NoError(t, err, "the answer")
		assert.Equal(t, <-read, want, "a late report: %v", late)
		_ = near.Close()
		_ = far.Close()
	}
}

// TestUnaskedBeforeWrite: what comes when the next request has the connection and none of it is
// written yet answers no request, and the request is not written.
func TestUnaskedBeforeWrite(t *testing.T) {
	t.Parallel()
	for name, arrive := range map[string]func(m *meteredConn, far net.Conn) error{
		"it is read": func(m *meteredConn, far net.Conn) error {
			m.reading = false
			go far.Write([]byte("stale")) //nolint:errcheck // as far as it is read
			_, err := m.Read(make([]byte, 10))
			return err
		},
		"it is in the kernel": func(m *meteredConn, far net.Conn) error {
			_, err := far.Write([]byte("stale"))
			for err == nil && !m.hasUnread() {
				runtime.Gosched()
			}
			return errUnasked
		},
		"the connection is closed": func(m *meteredConn, far net.Conn) error {
			err := far.Close()
			for err == nil && !m.hasUnread() {
				runtime.Gosched()
			}
			return errUnasked
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, far := connect(t)
			first, second := new(Delivery), new(Delivery)
			first.on(m, false)
			_, err := m.Write([]byte("request"))
			assert.NoError(t, err, "the first request")
			m.reading = true // until net/http has noticed
			second.on(m, true)
			assert.ErrorIs(t, arrive(m, far), errUnasked, "what arrives")
			_, err = m.Write([]byte("request"))
			assert.ErrorIs(t, err, errUnasked, "the second request")
			assert.True(t, second.NotSent(err), "it was not sent")
			assert.True(t, second.rejectUnasked(), "an answer is rejected")
			_, err = m.Write([]byte("request"))
			assert.True(t, errors.Is(err, errUnasked) || errors.Is(err, errSealed), "the request again: %v", err)
		})
	}
}

// on gives a connection to the request.
func (t *Delivery) on(m *meteredConn, guarded bool) {
	t.hasConn, t.conn, t.requestStart = true, m, m.assignTurn(guarded, false)
}

// TestRecordInPart: a request is not written while TLS has read a part of a record, which may be
// the beginning of an unasked answer.
func TestRecordInPart(t *testing.T) {
	t.Parallel()
	const text = "\x17\x03\x03\x01\x02" // a header: 258 bytes of application data
	records := []byte(text + strings.Repeat("x", 258) + "\x17\x03\x03\x00\x00" + text + strings.Repeat("y", 258))
	ends := []int{0, 5 + 258, 10 + 258, len(records)}
	for _, step := range []int{1, 2, 7, 300} {
		m, far := connect(t)
		m.encrypted = true
		for from := 0; from <= len(records); from += step {
			m.mu.Lock()
			m.reading = true
			assert.Equal(t, m.waitsForAnswer(), slices.Contains(ends, from), "after %d bytes", from)
			m.mu.Unlock()
			some := records[from:min(from+step, len(records))]
			if len(some) == 0 {
				break
			}
			_, err := far.Write(some)
			assert.NoError(t, err, "write")
			_, err = io.ReadFull(m, make([]byte, len(some)))
			assert.NoError(t, err, "read")
		}
		m.reading = true
		m.record = tlsRecord{header: 2}
		m.assignTurn(true, true)
		_, err := m.Write([]byte("request"))
		assert.ErrorIs(t, err, errSealed, "a request in the middle of a record")
	}
}

// TestCloseWrite: a tunnel can be closed on one side.
func TestCloseWrite(t *testing.T) {
	t.Parallel()
	m, far := connect(t)
	assert.NoError(t, m.CloseWrite(), "CloseWrite")
	_, err := far.Read(make([]byte, 1))
	assert.ErrorIs(t, err, io.EOF, "the other side")
	_, err = far.Write([]byte("late"))
	assert.NoError(t, err, "what the other side still sends")
	_, err = io.ReadFull(m, make([]byte, 4))
	assert.NoError(t, err, "is read")
}

// connect returns the two ends of a connection over TCP.
func connect(t *testing.T) (*meteredConn, net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	assert.NoError(t, err, "listen")
	defer l.Close()
	near, err := net.Dial("tcp", l.Addr().String())
	assert.NoError(t, err, "dial")
	far, err := l.Accept()
	assert.NoError(t, err, "accept")
	t.Cleanup(func() { _, _ = near.Close(), far.Close() })
	return newMeteredConn(near), far
}
