package httpidem

import (
	"errors"
	"net/http"
)

// Detach lets a guarded handler answer its client now and finish its work later. What the handler
// writes until it returns is sent to the client and not stored. The attempt stays alive, its lease
// extended, until MaxRun. Call finish exactly once: h writes the answer that is stored, or finishes
// the attempt itself, in place of the handler that has returned. No client gets that answer
// directly; duplicates get 409 in-progress until then. The body of the request that h gets has
// already been read. w may be wrapped if it has Unwrap.
//
// ok is false if the request is not guarded.
func Detach(w http.ResponseWriter) (finish func(h http.Handler), ok bool) {
	c := captureOf(w)
	if c == nil {
		return nil, false
	}
	c.detached = true
	late := newCapture(c.m, nowhere{}, c.r)
	m, inner, a := c.m, c.inner, c.attempt
	return func(h http.Handler) {
		defer func() {
			// http.ErrAbortHandler tells a client that the answer is incomplete, and here is no
			// client.
			if p := recover(); p != nil {
				if err, is := p.(error); !is || !errors.Is(err, http.ErrAbortHandler) {
					panic(p)
				}
			}
		}()
		m.work(late, inner, h, a)
	}, true
}

func captureOf(w http.ResponseWriter) *capture {
	for {
		switch x := w.(type) {
		case *capture:
			return x
		case interface{ Unwrap() http.ResponseWriter }:
			w = x.Unwrap()
		default:
			return nil
		}
	}
}

// nowhere is the ResponseWriter of a client that has gone.
type nowhere http.Header

func (n nowhere) Header() http.Header       { return http.Header(n) }
func (nowhere) Write(p []byte) (int, error) { return len(p), nil }
func (nowhere) WriteHeader(int)             {}
