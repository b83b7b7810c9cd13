package gateway

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
)

// sentBody is the body of an unguarded request while it is sent to the service.
//
// A service may answer before it has read the whole request. The gateway's server closes the
// client's body when the exchange ends. net/http reads once more after the last byte, to see that
// none follows. The failed read would be taken for a failed request, and end the connection on
// which the answer is still arriving. So this body ends by itself after its last byte, and a read
// that fails because the client's body is closed waits until the answer has been passed on.
type sentBody struct {
	body      io.Reader
	remaining int64 // bytes to come; -1: until the end of body; 0 once the end was seen
	ctx       context.Context
	answered  <-chan struct{} // closed when the answer has been read to its end, or there is none
}

func (b *sentBody) Read(p []byte) (int, error) {
	if b.remaining == 0 {
		return 0, io.EOF
	}
	if b.remaining > 0 && int64(len(p)) > b.remaining {
		p = p[:b.remaining]
	}
	n, err := b.body.Read(p)
	if b.remaining > 0 {
		b.remaining -= int64(n)
	}
	switch {
	case b.remaining == 0:
		err = io.EOF
	case err == io.EOF:
		b.remaining = 0
	case errors.Is(err, http.ErrBodyReadAfterClose):
		select {
		case <-b.answered:
		case <-b.ctx.Done():
		}
	}
	return n, err
}

// Close leaves the client's body open: the gateway's server owns it, and with a stream in both
// directions it is read after ReverseProxy has returned.
func (b *sentBody) Close() error { return nil }

// answerBody is the body of the service's answer. It signals when it is closed.
type answerBody struct {
	io.ReadCloser
	once   sync.Once
	closed chan<- struct{}
}

func (b *answerBody) Close() error {
	err := b.ReadCloser.Close()
	b.once.Do(func() { close(b.closed) })
	return err
}
