package httpidem

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
)

// payload is the body of a request that may be sent more than once.
type payload struct {
	first  io.ReadCloser
	more   func() (io.ReadCloser, error) // nil: it can be sent once
	length int64
}

// payloadOf prepares the body of req. After an error the caller must still close the body.
func (t *Transport) payloadOf(req *http.Request) (*payload, error) {
	p := &payload{req.Body, req.GetBody, req.ContentLength}
	limit := t.MaxBody
	if limit == 0 {
		limit = 1 << 20
	}
	switch {
	case req.Body == nil || req.Body == http.NoBody:
		p.more = func() (io.ReadCloser, error) { return req.Body, nil }
		return p, nil
	case req.GetBody != nil, limit < 0, req.ContentLength > limit, t.MaxAttempts == 1:
		return p, nil
	}
	b, err := readAll(req, limit)
	switch {
	case err != nil:
		return nil, fmt.Errorf("httpidem: the request body cannot be read, and nothing was sent: %w", err)
	case int64(len(b)) > limit:
		p.first = &joined{io.MultiReader(bytes.NewReader(b), req.Body), req.Body}
		return p, nil
	case req.ContentLength > 0 && req.ContentLength != int64(len(b)):
		return nil, fmt.Errorf("httpidem: the request body has %d bytes and its ContentLength says %d; nothing was sent", len(b), req.ContentLength)
	}
	closeBody(req)
	p.more = func() (io.ReadCloser, error) {
		if len(b) == 0 {
			return http.NoBody, nil
		}
		return io.NopCloser(bytes.NewReader(b)), nil
	}
	p.first, _ = p.more()
	if p.length = int64(len(b)); len(req.TransferEncoding) > 0 || len(req.Trailer) > 0 {
		p.length = -1 // keep the request chunked, as the caller wants
	}
	return p, nil
}

// readAll reads the body up to one byte over limit. If the context ends, it closes the body, which
// ends a blocked read.
func readAll(req *http.Request, limit int64) ([]byte, error) {
	ctx := req.Context()
	stop := context.AfterFunc(ctx, func() { closeBody(req) })
	b, err := io.ReadAll(io.LimitReader(req.Body, limit+1))
	if !stop() {
		return nil, context.Cause(ctx)
	}
	return b, err
}

// put sets the body of the n-th try.
func (p *payload) put(try *http.Request, n int) error {
	body := p.first
	if n > 1 {
		again, err := p.more()
		if err != nil {
			return fmt.Errorf("the request body cannot be read again: %w", err)
		}
		body = again
	}
	try.Body, try.ContentLength = body, p.length
	if body != nil {
		try.GetBody = p.more
	}
	return nil
}

// joined reads from one and closes the other.
type joined struct {
	io.Reader
	io.Closer
}

// dropSize is the most that is read of an unwanted answer, in bytes, so that its connection can be
// used again.
const dropSize = 64 << 10

func drop(resp *http.Response) {
	if resp.Body == nil {
		return
	}
	if 0 <= resp.ContentLength && resp.ContentLength <= dropSize {
		// a body of unknown length may never end
		_, _ = io.CopyN(io.Discard, resp.Body, dropSize+1)
	}
	_ = resp.Body.Close()
}

// peek reads up to limit bytes of the body of resp and puts them back, followed by the error that
// ended the reading. It reports whether it read the whole body.
func peek(resp *http.Response, limit int64) ([]byte, bool) {
	if resp.Body == nil {
		return nil, false
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	var rest io.Reader = resp.Body
	if err != nil {
		rest = broken{err}
	}
	resp.Body = &joined{io.MultiReader(bytes.NewReader(b), rest), resp.Body}
	return b, err == nil && int64(len(b)) <= limit
}

// broken is the rest of a body that broke off.
type broken struct{ err error }

func (b broken) Read([]byte) (int, error) { return 0, b.err }
