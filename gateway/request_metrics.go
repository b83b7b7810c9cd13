package gateway

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe"
)

// requestMetrics is one request as the monitor and the access log see it.
type requestMetrics struct {
	route  string
	begun  time.Time
	logged bool // the hash of its key is needed

	mu      sync.Mutex // an attempt that continues without its client ends on another goroutine
	outcome string
	attempt int
	hash    string
}

type metricsKey struct{}

// metricsContext is a context with a requestMetrics.
type metricsContext struct {
	context.Context
	metrics *requestMetrics
}

// Value implements [context.Context].
func (c *metricsContext) Value(key any) any {
	if key == (metricsKey{}) {
		return c.metrics
	}
	return c.Context.Value(key)
}

// unguarded is the outcome of a request that no guard applied to.
const unguarded = "unguarded"

func metricsOf(ctx context.Context) *requestMetrics {
	v, _ := ctx.Value(metricsKey{}).(*requestMetrics)
	return v
}

// recordOutcome stores the outcome of the request once; later calls are ignored.
func (v *requestMetrics) recordOutcome(outcome string) {
	if v == nil {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.outcome == "" {
		v.outcome = outcome
	}
}

func (v *requestMetrics) isUnguarded() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.outcome == unguarded
}

func (v *requestMetrics) recordCall(hash string, d retrysafe.CallDone) {
	v.recordOutcome(d.Outcome)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.attempt, v.hash = d.Attempt, hash
}

// answerWriter records the status and the length of an answer, and limits the time of clients that
// do not read their answers.
type answerWriter struct {
	http.ResponseWriter
	metrics   requestMetrics
	ctx       metricsContext // of the request
	writeTime time.Duration
	cors      *cors // nil: the service says who may read the answer
	origin    string
	status    int
	bytes     int64
}

func (w *answerWriter) WriteHeader(status int) {
	if w.status == 0 && (status >= 200 || status == http.StatusSwitchingProtocols) {
		w.setCORSFields()
		w.status = status
		if !w.metrics.isUnguarded() { // other streams may last
			w.setWriteDeadline(time.Now().Add(w.writeTime))
		}
	}
	w.ResponseWriter.WriteHeader(status)
}

// setCORSFields sets the headers that say which pages may read the answer.
func (w *answerWriter) setCORSFields() {
	if w.cors == nil {
		return
	}
	if h := w.Header(); w.cors.allowOrigin(h, w.origin) {
		h["Access-Control-Expose-Headers"] = []string{w.cors.expose}
	}
}

func (w *answerWriter) setWriteDeadline(t time.Time) {
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
	if w.metrics.isUnguarded() {
		// for this part alone: FlushError removes it
		w.setWriteDeadline(time.Now().Add(w.writeTime))
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
	if w.metrics.isUnguarded() {
		w.setWriteDeadline(time.Time{}) // over HTTP/2 an expired deadline ends the stream
	}
	return nil
}

// Hijack is for [http.ResponseController]. The caller writes the answer to the connection itself:
// it switches protocols.
func (w *answerWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err == nil && w.status == 0 {
		w.status = http.StatusSwitchingProtocols
	}
	return conn, rw, err
}

// Unwrap is for [http.ResponseController].
func (w *answerWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
