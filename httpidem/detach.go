package httpidem

import (
	"errors"
	"net/http"
)

// Detach lets a guarded handler answer its client now and come to an end of its work later: what it
// writes until it returns goes to the client and is not kept, and the attempt lives on, its lease
// extended until MaxRun. Whoever has finish calls it once: h makes the answer that is kept, or
// settles the attempt itself, in place of the handler that has returned. No client gets it
// directly; repeats meet 409 in-progress until then. The request that h gets has its body read
// already. w may be wrapped if it has Unwrap.
//
// ok is false where the request is not guarded.
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
			// It means that the client must not take the answer for whole, and there is none.
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

// nowhere is a client that has gone.
type nowhere http.Header

func (n nowhere) Header() http.Header       { return http.Header(n) }
func (nowhere) Write(p []byte) (int, error) { return len(p), nil }
func (nowhere) WriteHeader(int)             {}
