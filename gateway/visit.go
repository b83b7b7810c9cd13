package gateway

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe"
)

// visit is one request as the monitor and the access log see it.
type visit struct {
	route string
	begun time.Time

	mu      sync.Mutex // an attempt that goes on without its client ends on another goroutine
	outcome string
	attempt int
	hash    string
}

type visitKey struct{}

func visitOf(ctx context.Context) *visit {
	v, _ := ctx.Value(visitKey{}).(*visit)
	return v
}

// comes takes what became of the request; the first word counts.
func (v *visit) comes(outcome string) {
	if v == nil {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.outcome == "" {
		v.outcome = outcome
	}
}

func (v *visit) done(hash string, d retrysafe.CallDone) {
	v.comes(d.Outcome)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.attempt, v.hash = d.Attempt, hash
}

// answerWriter sees status and length of an answer, and gives clients that do not read what they asked for a limited time.
type answerWriter struct {
	http.ResponseWriter
	limited bool // streams that are not guarded may last
	status  int
	bytes   int64
}

// slowClient is how long a client may take to read a guarded answer.
const slowClient = time.Minute

func (w *answerWriter) WriteHeader(status int) {
	if w.status == 0 && (status >= 200 || status == http.StatusSwitchingProtocols) {
		w.status = status
		if w.limited {
			_ = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(time.Now().Add(slowClient))
		}
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *answerWriter) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	n, err := w.ResponseWriter.Write(p)
	w.bytes += int64(n)
	return n, err
}

// Unwrap is for [http.ResponseController].
func (w *answerWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// observed serves by h, and tells the monitor and the access log.
func (g *Gateway) observed(w http.ResponseWriter, r *http.Request, route string, h http.Handler) {
	v := &visit{route: route, begun: time.Now()}
	aw := &answerWriter{ResponseWriter: w, limited: !safe(r.Method)}
	defer func() { // also where a panic cuts the connection
		v.comes("refused") // before there was a call of the engine
		v.mu.Lock()
		outcome, attempt, hash := v.outcome, v.attempt, v.hash
		v.mu.Unlock()
		took := time.Since(v.begun)
		g.monitor.served(route, outcome, took)
		if g.access != nil {
			g.access.LogAttrs(r.Context(), slog.LevelInfo, "request", slog.String("remote", r.RemoteAddr), slog.String("proto", r.Proto),
				slog.String("method", r.Method), slog.String("path", r.URL.EscapedPath()), slog.String("route", route),
				slog.Int("status", aw.status), slog.Int64("bytes", aw.bytes), slog.Float64("ms", float64(took.Microseconds())/1000),
				slog.String("outcome", outcome), slog.Int("attempt", attempt), slog.String("key_hash", hash))
		}
	}()
	h.ServeHTTP(aw, r.WithContext(context.WithValue(r.Context(), visitKey{}, v)))
}

func safe(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return false
}
