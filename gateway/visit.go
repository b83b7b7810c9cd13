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
	route  string
	begun  time.Time
	logged bool // the hash of its key is needed

	mu      sync.Mutex // an attempt that continues without its client ends on another goroutine
	outcome string
	attempt int
	hash    string
}

type visitKey struct{}

// unguarded is the outcome of a request that no guard applied to.
const unguarded = "unguarded"

func visitOf(ctx context.Context) *visit {
	v, _ := ctx.Value(visitKey{}).(*visit)
	return v
}

// comes records the outcome of the request; later calls are ignored.
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

func (v *visit) unguarded() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.outcome == unguarded
}

func (v *visit) done(hash string, d retrysafe.CallDone) {
	v.comes(d.Outcome)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.attempt, v.hash = d.Attempt, hash
}

// answerWriter records the status and the length of an answer, and limits the time of clients that
// do not read their answers.
type answerWriter struct {
	http.ResponseWriter
	visit  visit
	limit  time.Duration
	cors   *cors // nil: the service says who may read the answer
	origin string
	status int
	bytes  int64
}

func (w *answerWriter) WriteHeader(status int) {
	if w.status == 0 && (status >= 200 || status == http.StatusSwitchingProtocols) {
		w.share()
		w.status = status
		if !w.visit.unguarded() { // other streams may last
			w.deadline(time.Now().Add(w.limit))
		}
	}
	w.ResponseWriter.WriteHeader(status)
}

// share sets the headers that say which pages may read the answer.
func (w *answerWriter) share() {
	if w.cors == nil {
		return
	}
	if h := w.Header(); w.cors.allow(h, w.origin) {
		h["Access-Control-Expose-Headers"] = []string{w.cors.expose}
	}
}

func (w *answerWriter) deadline(t time.Time) {
	if direct, ok := w.ResponseWriter.(interface{ SetWriteDeadline(time.Time) error }); ok {
		_ = direct.SetWriteDeadline(t)
		return
	}
	_ = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(t)
}

func (w *answerWriter) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if w.visit.unguarded() {
		w.deadline(time.Now().Add(w.limit)) // for this part alone: FlushError removes it
	}
	n, err := w.ResponseWriter.Write(p)
	w.bytes += int64(n)
	return n, err
}

// FlushError is for [http.ResponseController]. It removes the write deadline of an unguarded
// answer, since the flushed part has been sent and the next part may take longer.
func (w *answerWriter) FlushError() error {
	if err := http.NewResponseController(w.ResponseWriter).Flush(); err != nil {
		return err
	}
	if w.visit.unguarded() {
		w.deadline(time.Time{}) // over HTTP/2 an expired deadline ends the stream
	}
	return nil
}

// Unwrap is for [http.ResponseController].
func (w *answerWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// observed serves with h, and reports to the monitor and the access log.
func (g *Gateway) observed(w http.ResponseWriter, r *http.Request, route string, c *cors, h http.Handler) {
	aw := &answerWriter{ResponseWriter: w, visit: visit{route: route, begun: time.Now(), logged: g.access != nil}, limit: g.clientTime, cors: c}
	if c != nil {
		aw.origin = r.Header.Get("Origin")
	}
	v := &aw.visit
	g.busy.Add(1)
	defer g.busy.Add(-1)
	defer func() { // also if a panic cuts the connection
		v.comes("refused") // before any call of the engine
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
	if aw.status == 0 {
		aw.share() // an answer without a header or body written
	}
}
