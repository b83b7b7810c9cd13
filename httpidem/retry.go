package httpidem

import (
	"context"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe/backoff"
)

// again says whether the n-th try is followed by another one, and after how long.
func (t *Transport) again(ctx context.Context, n int, body *payload, resp *http.Response, err error) (time.Duration, bool) {
	tries := backoff.Backoff{Max: t.Max, MinWait: t.MinWait, MaxWait: t.MaxWait}
	if body.more == nil || tries.Last(ctx, n) {
		return 0, false
	}
	var after time.Duration
	if err == nil {
		var ok bool
		if after, ok = repeatable(resp); !ok {
			return 0, false
		}
	}
	return tries.Next(ctx, n, after)
}

// passing are the answers that another try may change by themselves.
var passing = []int{
	http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests,
	http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout,
}

// final are the codes of problems whose repeat is told the same.
var final = []string{"outcome-unknown", "already-done", "answer-not-kept", "principal-changed", "resolved-failed"}

// repeatable says whether the request that was answered by resp may be sent again, and after how
// long at least.
func repeatable(resp *http.Response) (time.Duration, bool) {
	after, told := retryAfter(resp.Header, time.Now())
	if conflict := resp.StatusCode == http.StatusConflict; conflict && !told || !conflict && !slices.Contains(passing, resp.StatusCode) {
		return 0, false
	}
	if resp.ContentLength < 0 {
		return after, true // it may never end; a repeat that would be told the same does no harm
	}
	if p, ok := ProblemFrom(resp); ok && (slices.Contains(final, p.Code) || p.ErrorCode == errorDone) {
		return 0, false
	}
	return after, true
}

// retryAfter reads the field of RFC 9110, section 10.2.3: seconds, or a date, which is compared
// with the server's own if it tells. What is neither counts as not there.
func retryAfter(h http.Header, now time.Time) (time.Duration, bool) {
	v := strings.Trim(h.Get("Retry-After"), " \t")
	if v == "" {
		return 0, false
	}
	if strings.Trim(v, "0123456789") == "" {
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil || n > int64(math.MaxInt64/time.Second) {
			return math.MaxInt64, true
		}
		return time.Duration(n) * time.Second, true
	}
	at, err := http.ParseTime(v)
	if err != nil {
		return 0, false
	}
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		now = date
	}
	return max(0, at.Sub(now)), true
}
