package gateway

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"sync/atomic"
	"time"
)

// Health configures the health checks of the upstreams. The zero value checks nothing: then only an
// upstream that cannot be connected to is left out, for a moment.
type Health struct {
	// Path is requested with GET; an answer of 200 to 399 is good. Empty: no health checks.
	Path string
	// Every is the time between two checks; default 5 s.
	Every time.Duration
	// Timeout is how long an answer may take; default 2 s.
	Timeout time.Duration
}

// upstream is one address of the service.
type upstream struct {
	url         *url.URL
	down        atomic.Bool   // by the last check
	pausedUntil atomic.Int64  // left out until then after a failed connection, in Unix nanoseconds
	failures    atomic.Uint64 // requests for which no connection could be made
}

// pauseTime is how long an address is left out after a failed connection.
const pauseTime = 2 * time.Second

func (u *upstream) isHealthy(now time.Time) bool {
	return !u.down.Load() && u.pausedUntil.Load() <= now.UnixNano()
}

// pause leaves the address out for a moment, after a connection to it could not be made.
func (u *upstream) pause() {
	u.failures.Add(1)
	u.pausedUntil.Store(time.Now().Add(pauseTime).UnixNano())
}

// upstreams are all addresses of the service. Any of them may get any request of a key, since
// records are in the store.
type upstreams struct {
	all  []*upstream
	next atomic.Uint64
}

// pick returns the next healthy address in turn that is not among tried; if none is healthy, one
// that is not. It returns nil if all were tried.
func (p *upstreams) pick(tried []*upstream) *upstream {
	now, start := time.Now(), p.next.Add(1)
	var last *upstream
	for i := range p.all {
		u := p.all[(start+uint64(i))%uint64(len(p.all))]
		switch {
		case slices.Contains(tried, u):
		case u.isHealthy(now):
			return u
		case last == nil:
			last = u
		}
	}
	return last
}

// healthyCount counts the healthy addresses.
func (p *upstreams) healthyCount() (n int) {
	for _, u := range p.all {
		if u.isHealthy(time.Now()) {
			n++
		}
	}
	return n
}

// watchHealth checks u repeatedly until ctx ends. Two bad answers in a row take it out, one good
// answer takes it back.
func (u *upstream) watchHealth(ctx context.Context, h Health, rt http.RoundTripper, log *slog.Logger) {
	tick := time.NewTicker(h.Every)
	defer tick.Stop()
	for bad := 0; ; {
		switch err := u.checkHealth(ctx, h, rt); {
		case ctx.Err() != nil:
			return
		case err == nil:
			bad = 0
			u.pausedUntil.Store(0)
			if u.down.Swap(false) {
				log.Info("upstream is well again", "upstream", u.url.Host)
			}
		default:
			if bad++; bad >= 2 && !u.down.Swap(true) {
				log.Warn("upstream is not well and gets no requests", "upstream", u.url.Host, "cause", errorClass(err))
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (u *upstream) checkHealth(ctx context.Context, h Health, rt http.RoundTripper) error {
	ctx, cancel := context.WithTimeout(ctx, h.Timeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.url.Scheme+"://"+u.url.Host+h.Path, nil)
	if err != nil {
		return err
	}
	r.Header.Set("User-Agent", "retrysafe-health")
	resp, err := rt.RoundTrip(r)
	if err != nil {
		return err
	}
	_ = resp.Body.Close()
	if resp.StatusCode < 200 || resp.StatusCode > 399 {
		return unhealthyStatus(resp.StatusCode)
	}
	return nil
}
