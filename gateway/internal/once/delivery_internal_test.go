package once

import (
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// TestUnasked: what comes on an idle connection is not passed on, and the answer to a request is,
// also if net/http says that the connection is idle when the next request already has it.
func TestUnasked(t *testing.T) {
	t.Parallel()
	for late, want := range map[bool]string{false: "0 " + errUnasked.Error(), true: "6 <nil>"} {
		near, far := net.Pipe()
		m := &meter{Conn: near}
		first, second := new(Delivery), new(Delivery)
		first.on(m, false)
		if late {
			second.on(m, true)
			go io.Copy(io.Discard, io.LimitReader(far, 7)) //nolint:errcheck // as far as it is written
			_, err := m.Write([]byte("request"))
			assert.NoError(t, err, "write")
		}
		first.rests()
		go far.Write([]byte("answer")) //nolint:errcheck // as far as it is read
		n, err := m.Read(make([]byte, 10))
		assert.Equal(t, fmt.Sprint(n, " ", err), want, "a late report: %v", late)
		_ = near.Close()
		_ = far.Close()
	}
}

// TestUnaskedBeforeWrite: what comes when the next request has the connection and none of it is
// written yet answers no request.
func TestUnaskedBeforeWrite(t *testing.T) {
	t.Parallel()
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	m := &meter{Conn: near}
	first, second := new(Delivery), new(Delivery)
	first.on(m, false)
	first.rests()
	second.on(m, true)
	go far.Write([]byte("answer")) //nolint:errcheck // as far as it is read
	_, err := m.Read(make([]byte, 10))
	assert.ErrorIs(t, err, errUnasked, "read")
}
