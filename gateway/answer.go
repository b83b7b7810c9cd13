package gateway

import (
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/gateway/internal/inside"
	"github.com/retrysafe/retrysafe/gateway/internal/once"
)

// hasValidStatus reports whether the answer has a status that can be passed on. 101 cannot: the
// request did not ask for it.
func hasValidStatus(resp *http.Response) bool {
	return resp.StatusCode >= http.StatusOK && resp.StatusCode <= 999
}

// finishExchange finishes an exchange that has ended, or that has reached the part of an answer
// that is streamed.
func (g *sender) finishExchange(w http.ResponseWriter, r *http.Request, a *retrysafe.Attempt, x *exchange) {
	if x.err != nil {
		g.finishUnanswered(w, r, a, x)
		return
	}
	defer x.resp.Body.Close()
	why, code := (*doubtError)(nil), http.StatusBadGateway
	switch {
	case !hasValidStatus(x.resp):
		why = &doubtError{cause: "garbage", err: errors.New("the answer has a status that is none, or switches protocols")}
	case x.cutCause != nil:
		why, code = &doubtError{cause: "truncated", err: x.cutCause}, statusFor(x.cutCause)
	}
	if why != nil {
		g.finishInDoubt(r, a, why)
		g.middleware.Problem(w, r, outcomeUnknownProblem(a, why, code))
		return
	}
	g.passAnswer(w, r, a, x)
}

// passAnswer passes the service's answer on. The client gets nothing before the whole answer has
// arrived, unless it is too large to be stored or an event stream. Such an answer is passed on as
// it comes, and may take until MaxRun.
func (g *sender) passAnswer(w http.ResponseWriter, r *http.Request, a *retrysafe.Attempt, x *exchange) {
	resp := x.resp
	dropHopByHop(resp.Header)
	host, scheme := g.requestedAddress(r)
	g.inside.Hide(resp.Header, inside.Client{Scheme: scheme, Host: host})
	if _, set := resp.Header["Content-Type"]; !set {
		resp.Header["Content-Type"] = nil // no type is sniffed if the service sends none
	}
	if guard, ok := w.(interface{ TakeHeader(http.Header) bool }); !ok || !guard.TakeHeader(resp.Header) {
		maps.Copy(w.Header(), resp.Header)
	}
	h := w.Header()
	for name := range resp.Trailer {
		if !slices.Contains(gatewayFields, name) {
			h.Add("Trailer", name)
		}
	}
	w.WriteHeader(resp.StatusCode)
	_, _ = w.Write(x.answerStart)
	if once.EventStream(resp) || int64(len(x.answerStart)) > g.mostStored {
		if err := copyRest(w, resp.Body, once.EventStream(resp), g.clientTime); err != nil {
			g.finishInDoubt(r, a, &doubtError{cause: "truncated", err: err})
			// the head has been sent: the client must not take this answer for complete
			panic(http.ErrAbortHandler)
		}
	}
	for name, values := range resp.Trailer {
		if !slices.Contains(gatewayFields, name) {
			h[http.TrailerPrefix+name] = values
		}
	}
}

// copyRest copies the rest of an answer. It returns errors of the upstream alone: a client that has
// gone, or that reads too slowly, stops nothing.
func copyRest(w http.ResponseWriter, from io.Reader, flush bool, limit time.Duration) error {
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
			// the next part may take longer; over HTTP/2 an expired deadline ends the stream
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
