package gateway

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem"
)

func events(resp *http.Response) bool {
	return strings.HasPrefix(strings.ToLower(resp.Header.Get("Content-Type")), "text/event-stream")
}

// status tells whether the answer has one that may be passed on. 101 nobody asked for.
func status(resp *http.Response) bool {
	return resp.StatusCode >= http.StatusOK && resp.StatusCode <= 999
}

// conclude settles an exchange that has come to its end, or to the part of an answer that is passed
// on as it comes.
func (g *sender) conclude(w http.ResponseWriter, r *http.Request, a *retrysafe.Attempt, x *exchange) {
	if x.err != nil {
		g.failed(w, r, a, x)
		return
	}
	defer x.resp.Body.Close()
	why, code := (*doubt)(nil), http.StatusGatewayTimeout
	switch {
	case !status(x.resp):
		why, code = &doubt{cause: "garbage", err: errors.New("the answer has a status that is none, or switches protocols")}, http.StatusBadGateway
	case x.cut != nil:
		why = &doubt{cause: "truncated", err: x.cut}
	}
	if why != nil {
		g.unknown(r, a, why)
		g.middleware.Problem(w, r, httpidem.NewProblem("outcome-unknown", why).WithStatus(code))
		return
	}
	g.answer(w, r, a, x)
}

// answer passes the service's answer on. Nothing is given to the client before the whole of it is
// here, unless it is too large to be kept or a stream of events: that is passed on as it comes, and
// may take until MaxRun.
func (g *sender) answer(w http.ResponseWriter, r *http.Request, a *retrysafe.Attempt, x *exchange) {
	resp, h := x.resp, w.Header()
	dropHopByHop(resp.Header)
	h["Content-Type"] = nil // nothing is made up where the service says nothing
	for name, values := range resp.Header {
		h[name] = values
	}
	for name := range resp.Trailer {
		h.Add("Trailer", name)
	}
	w.WriteHeader(resp.StatusCode)
	_, _ = w.Write(x.start)
	if events(resp) || int64(len(x.start)) > g.limit {
		if err := copyOn(w, resp.Body, events(resp), g.clientTime); err != nil {
			g.unknown(r, a, &doubt{cause: "truncated", err: err})
			// the head is gone: the client must not take this answer for whole
			panic(http.ErrAbortHandler)
		}
	}
	for name, values := range resp.Trailer {
		h[http.TrailerPrefix+name] = values
	}
}

// copyOn returns the error of the upstream alone: that the client has gone, or reads too slowly,
// stops nothing.
func copyOn(w http.ResponseWriter, from io.Reader, flush bool, limit time.Duration) error {
	rc := http.NewResponseController(w)
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			_ = rc.SetWriteDeadline(time.Now().Add(limit))
			_, _ = w.Write(buf[:n])
			if flush {
				_ = rc.Flush()
			}
			// the next part may take its time; over HTTP/2 a deadline that passes ends the stream
			_ = rc.SetWriteDeadline(time.Time{})
		}
		if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			_ = rc.SetWriteDeadline(time.Now().Add(limit)) // for what is still held back
			return nil
		}
		if err != nil {
			return err
		}
	}
}
