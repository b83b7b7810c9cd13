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

// burstSize is how many duplicates are sent at once, and the burst that the rate allows.
const burstSize = 50

// maxAnswer bounds what is read of an answer's body.
const maxAnswer = 4 << 20

// errCap ends an examination that would send too much.
var errCap = errors.New("the largest number of requests is reached; raise Options.MaxRequests, or --max-requests")

// sender sends requests within the bounds of Options.
type sender struct {
	client, unbuffered *http.Client
	patience           time.Duration // for one answer, to its end
	limiter            *rate.Limiter
	maxRequests        int64
	sent               atomic.Int64
	longestDelay       atomic.Int64 // the longest time from an answer to its effect, in nanoseconds
}

func newSender(o *Options) *sender {
	return &sender{
		client:      newClient(o, 0),
		unbuffered:  newClient(o, 16), // what is written goes out at once
		patience:    o.Patience,
		limiter:     rate.NewLimiter(rate.Limit(o.Rate), burstSize),
		maxRequests: int64(o.MaxRequests),
	}
}

func newClient(o *Options, writeBuffer int) *http.Client {
	var config *tls.Config
	if o.TLS != nil {
		config = o.TLS.Clone()
	}
	return &http.Client{
		Transport: &http.Transport{
			DialContext:         hostFilter{o.Allow}.dial,
			TLSClientConfig:     config,
			TLSHandshakeTimeout: 10 * time.Second,
			MaxIdleConnsPerHost: burstSize,
			IdleConnTimeout:     10 * time.Second,
			DisableCompression:  true, // the answer's own bytes are compared
			WriteBufferSize:     writeBuffer,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func (s *sender) closeIdle() {
	s.client.CloseIdleConnections()
	s.unbuffered.CloseIdleConnections()
}

// reserve waits until n more requests may be sent.
func (s *sender) reserve(ctx context.Context, n int) error {
	if s.sent.Add(int64(n)) > s.maxRequests {
		s.sent.Add(-int64(n))
		return errCap
	}
	return s.limiter.WaitN(ctx, n)
}

// noteEffectDelay notes that an effect was counted d after the last answer. It is not for
// concurrent use with itself.
func (s *sender) noteEffectDelay(d time.Duration) {
	s.longestDelay.Store(max(s.longestDelay.Load(), int64(d)))
}

// effectDelay returns the longest time after which an effect was counted.
func (s *sender) effectDelay() time.Duration { return time.Duration(s.longestDelay.Load()) }

// reply is the answer to a request, or the reason why there is none.
type reply struct {
	status int
	header http.Header
	body   []byte
	err    error
	took   time.Duration
}

func (r *reply) isSuccess() bool { return r.err == nil && r.status/100 == 2 }
func (r *reply) isRefusal() bool { return r.err == nil && r.status/100 == 4 }
func (r *reply) isFailure() bool { return r.err == nil && r.status/100 == 5 }

// saysRunning reports whether r says that the first request has not ended.
func (r *reply) saysRunning() bool {
	return r.err == nil && (r.status == http.StatusConflict || r.status == http.StatusTooEarly)
}

// equals reports whether r and o have the same status and bytes.
func (r *reply) equals(o *reply) bool {
	return r.err == nil && o.err == nil && r.status == o.status && bytes.Equal(r.body, o.body)
}

// String is the reply in a sentence: "201", or why there is none.
func (r *reply) String() string {
	if r.err != nil {
		return "no answer (" + r.err.Error() + ")"
	}
	return fmt.Sprint(r.status)
}

// redirectTarget returns where an answer to a request of this URL redirects to, without the query,
// which may have secrets. It is empty for an answer that is no redirect.
func (r *reply) redirectTarget(from string) string {
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
	req, err := http.NewRequestWithContext(ctx, r.methodOrPost(), r.URL, nil)
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
	// not the URL, which may have secrets
	answer.err, answer.took = causeWithoutURL(err), time.Since(start)
	return answer
}
