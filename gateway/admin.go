package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe"
)

// Admin returns a handler for operators, to be served on a separate address. It never shows a key,
// a path or a secret.
//
//	GET /healthz   200 while the process lives
//	GET /readyz    200 if requests can be served: the store answers, the secret is the one that it was used with, an upstream is healthy, and the process is not draining; else 503. It also tells of a call of the store that failed less than 30 s ago, if there is a monitor.
//	GET /metrics   the metrics of the monitor, if there is one
func Admin(l *Live, e *retrysafe.Engine, m *Monitor) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { writePlainText(w, http.StatusOK, "ok\n") })
	probe := &readiness{live: l, engine: e, monitor: m}
	mux.HandleFunc("GET /readyz", probe.serve)
	if m != nil {
		mux.Handle("GET /metrics", m.Handler())
	}
	return mux
}

func writePlainText(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text))
}

// failureShown is how long /readyz tells of a call of the store that failed.
const failureShown = 30 * time.Second

// readiness asks the store at most once a second, however often /readyz is requested.
type readiness struct {
	live    *Live
	engine  *retrysafe.Engine
	monitor *Monitor

	mu        sync.Mutex
	checkedAt time.Time
	storeErr  error
}

func (p *readiness) serve(w http.ResponseWriter, r *http.Request) {
	g := p.live.current.Load()
	well, all := g.upstreams.healthyCount(), len(g.upstreams.all)
	store, draining := p.checkStore(r.Context()), p.live.draining.Load()
	var secret, history error
	if store == nil {
		secret, history = g.CheckSecret(r.Context()), g.history.state()
	}
	status, said := http.StatusOK, "ready\n"
	if store != nil || secret != nil || well == 0 || draining {
		status, said = http.StatusServiceUnavailable, "not ready\n"
	}
	word := "answers"
	if op, ago := p.monitor.lastStoreFailure(); store != nil {
		word = "does not answer"
	} else if op != "" && ago < failureShown {
		// A full store answers what /readyz asks, and refuses to write.
		word = fmt.Sprintf("answers, but %s failed %d s ago; the log has the error", op, int(ago.Seconds()))
	}
	said += fmt.Sprintf("store: %s\nupstreams: %d of %d are well\n", word, well, all)
	switch {
	case secret == nil:
	case errors.Is(secret, retrysafe.ErrSecretChanged):
		said += "secret: is not the one that the store was used with; the log has more\n"
	default:
		said += "secret: is not compared with the store's yet\n"
	}
	if history != nil { // finished work is answered, so it is ready
		said += "history: the store went back to an older state; the log has more\n"
	}
	if draining {
		said += "this process is going away\n"
	}
	writePlainText(w, status, said)
}

func (p *readiness) checkStore(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.checkedAt) < time.Second {
		return p.storeErr
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_, err := p.engine.Layer("gw").Lookup(ctx, retrysafe.Key{Operation: "readyz", ID: "readyz"})
	if errors.Is(err, retrysafe.ErrNotFound) {
		err = nil
	}
	p.checkedAt, p.storeErr = time.Now(), err
	return err
}
