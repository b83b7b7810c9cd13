package httpidem

import (
	"context"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/backoff"
)

// again reports whether another try follows the n-th one, and after what wait.
func (t *Transport) again(ctx context.Context, n int, body *payload, resp *http.Response, err error) (time.Duration, bool) {
	tries := backoff.Backoff{MaxAttempts: t.MaxAttempts, MinWait: t.MinWait, MaxWait: t.MaxWait}
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

// passing are the statuses that may be different at the next try.
var passing = []int{
	http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests,
	http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout,
}

// repeatable reports whether the request that resp answers may be sent again, and the least wait
// before that.
func repeatable(resp *http.Response) (time.Duration, bool) {
	after, told := retryAfter(resp.Header, time.Now())
	if conflict := resp.StatusCode == http.StatusConflict; conflict && !told || !conflict && !slices.Contains(passing, resp.StatusCode) {
		return 0, false
	}
	if resp.Header.Get(headerReplayed) == "true" || resp.Header.Get(contracts[ContractStripe].replayed) == "true" {
		return 0, false // a retry would get the same answer
	}
	if resp.ContentLength < 0 {
		return after, true // the body may never end; a retry that gets the same answer does no harm
	}
	p, ok := ProblemFrom(resp)
	if !ok {
		return after, true
	}
	code, known := retrysafe.ParseCode(p.Code)
	return after, p.ErrorCode != errorDone && (!known || code.Retryable())
}

// retryAfter parses the field of RFC 9110, section 10.2.3: seconds, or a date. It compares a date
// with the server's own Date if there is one. It ignores a value that is neither.
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
