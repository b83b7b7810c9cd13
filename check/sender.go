package check

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// atOnce is how many duplicates are sent at once, and the burst that the rate allows.
const atOnce = 50

// maxAnswer bounds what is read of an answer's body.
const maxAnswer = 4 << 20

// errCap ends an examination that would send too much.
var errCap = errors.New("the largest number of requests is reached; raise Options.MaxRequests, or --max-requests")

// sender sends requests within the bounds of Options.
type sender struct {
	client, chopped *http.Client
	patience        time.Duration // for one answer, to its end
	limit           *rate.Limiter
	most            int64
	sent            atomic.Int64
	late            atomic.Int64 // the longest time from an answer to its effect, in nanoseconds
}

func newSender(o *Options) *sender {
	return &sender{
		client:   newClient(o, 0),
		chopped:  newClient(o, 16), // what is written goes out at once
		patience: o.Patience,
		limit:    rate.NewLimiter(rate.Limit(o.Rate), atOnce),
		most:     int64(o.MaxRequests),
	}
}

func newClient(o *Options, writeBuffer int) *http.Client {
	var config *tls.Config
	if o.TLS != nil {
		config = o.TLS.Clone()
	}
	return &http.Client{
		Transport: &http.Transport{
			DialContext:         hosts{o.Allow}.dial,
			TLSClientConfig:     config,
			TLSHandshakeTimeout: 10 * time.Second,
			MaxIdleConnsPerHost: atOnce,
			IdleConnTimeout:     10 * time.Second,
			DisableCompression:  true, // the answer's own bytes are compared
			WriteBufferSize:     writeBuffer,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func (s *sender) close() {
	s.client.CloseIdleConnections()
	s.chopped.CloseIdleConnections()
}

// reserve waits until n more requests may be sent.
func (s *sender) reserve(ctx context.Context, n int) error {
	if s.sent.Add(int64(n)) > s.most {
		s.sent.Add(-int64(n))
		return errCap
	}
	return s.limit.WaitN(ctx, n)
}

// sawEffectAfter notes that an effect was counted d after the last answer. It is not for concurrent
// use with itself.
func (s *sender) sawEffectAfter(d time.Duration) { s.late.Store(max(s.late.Load(), int64(d))) }

// lateness returns the longest time after which an effect was counted.
func (s *sender) lateness() time.Duration { return time.Duration(s.late.Load()) }

// reply is the answer to a request, or the reason why there is none.
type reply struct {
	status int
	header http.Header
	body   []byte
	err    error
	took   time.Duration
}

func (r *reply) ok() bool      { return r.err == nil && r.status/100 == 2 }
func (r *reply) refused() bool { return r.err == nil && r.status/100 == 4 }
func (r *reply) failed() bool  { return r.err == nil && r.status/100 == 5 }

// running reports whether r says that the first request has not ended.
func (r *reply) running() bool {
	return r.err == nil && (r.status == http.StatusConflict || r.status == http.StatusTooEarly)
}

// same reports whether r and o have the same status and bytes.
func (r *reply) same(o *reply) bool {
	return r.err == nil && o.err == nil && r.status == o.status && bytes.Equal(r.body, o.body)
}

// String is the reply in a sentence: "201", or why there is none.
func (r *reply) String() string {
	if r.err != nil {
		return "no answer (" + r.err.Error() + ")"
	}
	return fmt.Sprint(r.status)
}

// redirect returns where an answer to a request of this URL redirects to, without the query, which
// may have secrets. It is empty for an answer that is no redirect.
func (r *reply) redirect(from string) string {
	base, err := url.Parse(from)
	if r.err != nil || r.status/100 != 3 || r.header.Get("Location") == "" || err != nil {
		return ""
	}
	to, err := base.Parse(r.header.Get("Location"))
	if err != nil {
		return ""
	}
	to.RawQuery, to.User, to.Fragment = "", nil, ""
	return to.String()
}

// send sends r once. written, which may be nil, is called when the request is on its way.
// The place in the rate must have been reserved.
func (s *sender) send(ctx context.Context, client *http.Client, r *Request, body io.Reader, written func()) reply {
	start := time.Now()
	late := fmt.Errorf("no answer within %s; raise Options.Patience, or --patience, if the API needs longer", s.patience)
	ctx, cancel := context.WithTimeoutCause(ctx, s.patience, late)
	defer cancel()
	if written != nil {
		ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { written() }})
	}
	answer := reply{}
	req, err := http.NewRequestWithContext(ctx, r.method(), r.URL, nil)
	if err != nil {
		return reply{err: err}
	}
	req.Header = r.Header.Clone()
	if host := req.Header.Get("Host"); host != "" {
		req.Host = host
	}
	// A request whose body can be read again is sent again by net/http when its connection turns
	// out to be closed. What is sent here is sent once.
	if len(r.Body) > 0 {
		req.Body, req.ContentLength = io.NopCloser(body), int64(len(r.Body))
	} else {
		req.Close = true // only a connection that was used before is tried again
	}
	if _, ok := body.(*gatedBody); ok {
		req.Close = true // fifty idle connections may be all that a service has
	}
	resp, err := client.Do(req)
	if err == nil {
		answer.status, answer.header = resp.StatusCode, resp.Header
		answer.body, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
		resp.Body.Close()
	}
	if err != nil && errors.Is(context.Cause(ctx), late) {
		err = late
	}
	answer.err, answer.took = inner(err), time.Since(start) // not the URL, which may have secrets
	return answer
}
