package httpidem

import (
	"context"
	"net/http"
	"slices"
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
	after, told := RetryAfter(resp.Header, time.Now())
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
