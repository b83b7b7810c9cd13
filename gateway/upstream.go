package gateway

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"sync/atomic"
	"time"
)

// Health says how services are asked whether they are well. The zero value asks nothing: then only
// a service that cannot be connected to is left out, for a moment.
type Health struct {
	// Path is asked for with GET; an answer of 200 to 399 is good. Empty: nothing is asked.
	Path string
	// Every is the time between two questions; default 5 s.
	Every time.Duration
	// Timeout is how long an answer may take; default 2 s.
	Timeout time.Duration
}

// upstream is one address of the service.
type upstream struct {
	url   *url.URL
	bare  bool         // http, and no path of its own: a request's target is the same there
	down  atomic.Bool  // says the last check
	after atomic.Int64 // could not be connected to: left out until then, Unix nanoseconds
}

// restTime is how long an address is left out that could not be connected to.
const restTime = 2 * time.Second

func (u *upstream) well(now time.Time) bool {
	return !u.down.Load() && u.after.Load() <= now.UnixNano()
}

func (u *upstream) rest() { u.after.Store(time.Now().Add(restTime).UnixNano()) }

// address makes the request one to u, and to its host: keys do not have the client's, so that the
// service should not go by it.
func (u *upstream) address(out *http.Request) {
	p := httputil.ProxyRequest{Out: out}
	p.SetURL(u.url)
}

// upstreams are all addresses of the service. Records are in the store, so that any of them may get
// any request of a key.
type upstreams struct {
	all  []*upstream
	next atomic.Uint64
}

// pick returns the next address in turn that is well and not among tried; if none is well, one that
// is not. nil: all were tried.
func (p *upstreams) pick(tried []*upstream) *upstream {
	now, start := time.Now(), p.next.Add(1)
	var last *upstream
	for i := range p.all {
		u := p.all[(start+uint64(i))%uint64(len(p.all))]
		switch {
		case slices.Contains(tried, u):
		case u.well(now):
			return u
		case last == nil:
			last = u
		}
	}
	return last
}

// well counts the addresses that are.
func (p *upstreams) well() (n int) {
	for _, u := range p.all {
		if u.well(time.Now()) {
			n++
		}
	}
	return n
}

// watch asks u again and again until ctx ends. Two bad answers in a row take it out, one good takes
// it back.
func (u *upstream) watch(ctx context.Context, h Health, rt http.RoundTripper, log *slog.Logger) {
	tick := time.NewTicker(h.Every)
	defer tick.Stop()
	for bad := 0; ; {
		switch err := u.ask(ctx, h, rt); {
		case ctx.Err() != nil:
			return
		case err == nil:
			bad = 0
			u.after.Store(0)
			if u.down.Swap(false) {
				log.Info("upstream is well again", "upstream", u.url.Host)
			}
		default:
			if bad++; bad >= 2 && !u.down.Swap(true) {
				log.Warn("upstream is not well and gets no requests", "upstream", u.url.Host, "cause", class(err))
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// unwell is an answer to a check that is no good one.
type unwell int

func (e unwell) Error() string { return http.StatusText(int(e)) }

func (u *upstream) ask(ctx context.Context, h Health, rt http.RoundTripper) error {
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
		return unwell(resp.StatusCode)
	}
	return nil
}
