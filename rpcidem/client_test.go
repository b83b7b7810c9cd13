package rpcidem_test

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/rpcidem"
)

// tries calls Do with a failure until Do gives up, and returns the time of each try, counted from
// the first.
func tries(ctx context.Context, r *rpcidem.Retry, f *rpcidem.Failure) []time.Duration {
	begun := time.Now()
	var at []time.Duration
	r.Do(ctx, func() *rpcidem.Failure {
		at = append(at, time.Since(begun))
		return f
	})
	return at
}

// TestRetry: the number of tries is right. No wait is longer than the bound or shorter than the
// server asks for, and no try comes after the end of the context.
func TestRetry(t *testing.T) {
	t.Parallel()
	away := &rpcidem.Failure{Code: rpcidem.Unavailable}
	for name, tt := range map[string]struct {
		retry       rpcidem.Retry
		failure     *rpcidem.Failure
		limit       time.Duration // of the context
		most, least int           // tries
		waits       [2]time.Duration
	}{
		"the defaults":           {failure: away, most: 4, least: 4, waits: [2]time.Duration{0, 400 * time.Millisecond}},
		"an answer":              {failure: nil, most: 1, least: 1},
		"one try":                {retry: rpcidem.Retry{MaxAttempts: 1}, failure: away, most: 1, least: 1},
		"bounded":                {retry: rpcidem.Retry{MaxAttempts: 70, MinWait: time.Second, MaxWait: 2 * time.Second}, failure: away, most: 70, least: 70, waits: [2]time.Duration{0, 2 * time.Second}},
		"bounded by nothing":     {retry: rpcidem.Retry{MaxAttempts: 3, MinWait: math.MaxInt64, MaxWait: math.MaxInt64}, failure: &rpcidem.Failure{Code: rpcidem.Unavailable, RetryAfter: 1, Asked: true}, limit: time.Hour, most: 3, least: 1, waits: [2]time.Duration{0, time.Hour}},
		"the server asks":        {failure: &rpcidem.Failure{Code: rpcidem.Aborted, RetryAfter: 3 * time.Second, Asked: true}, most: 4, least: 4, waits: [2]time.Duration{3 * time.Second, 3400 * time.Millisecond}},
		"it asks for the most":   {failure: &rpcidem.Failure{Code: rpcidem.Aborted, RetryAfter: 10 * time.Second, Asked: true}, most: 4, least: 4, waits: [2]time.Duration{10 * time.Second, 10 * time.Second}},
		"it asks for more":       {failure: &rpcidem.Failure{Code: rpcidem.Aborted, RetryAfter: 10*time.Second + 1, Asked: true}, most: 1, least: 1},
		"not before the end":     {failure: &rpcidem.Failure{Code: rpcidem.Aborted, RetryAfter: 3 * time.Second, Asked: true}, limit: 7 * time.Second, most: 3, least: 2, waits: [2]time.Duration{3 * time.Second, 4 * time.Second}},
		"aborted, and not asked": {failure: &rpcidem.Failure{Code: rpcidem.Aborted}, most: 1, least: 1},
		"another code":           {failure: &rpcidem.Failure{Code: rpcidem.Internal, RetryAfter: 1, Asked: true}, most: 1, least: 1},
		"final, whatever is told": {
			failure: &rpcidem.Failure{Code: rpcidem.Unavailable, Reason: "PAYLOAD_MISMATCH", RetryAfter: 1, Asked: true}, most: 1, least: 1,
		},
		"a doubt that will be asked": {failure: &rpcidem.Failure{Code: rpcidem.FailedPrecondition, Reason: "OUTCOME_UNKNOWN", RetryAfter: 1, Asked: true}, most: 4, least: 4, waits: [2]time.Duration{1, time.Second}},
		"a doubt":                    {failure: &rpcidem.Failure{Code: rpcidem.Unavailable, Reason: "OUTCOME_UNKNOWN"}, most: 1, least: 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx := t.Context()
			if tt.limit > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, tt.limit)
				defer cancel()
			}
			at := tries(ctx, &tt.retry, tt.failure)
			assert.True(t, len(at) >= tt.least && len(at) <= tt.most, "%s: %d tries", name, len(at))
			for i := 1; i < len(at); i++ {
				wait := at[i] - at[i-1]
				assert.True(t, wait >= tt.waits[0] && wait <= tt.waits[1], "%s: wait %d is %v", name, i, wait)
			}
		})
	}
}

// TestRetryLeaves: a caller that goes away does not wait for the next try.
func TestRetryLeaves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, leave := context.WithCancel(t.Context())
		begun := time.Now()
		time.AfterFunc(time.Second, leave)
		at := tries(ctx, &rpcidem.Retry{MaxWait: time.Hour}, &rpcidem.Failure{Code: rpcidem.Unavailable, RetryAfter: time.Minute, Asked: true})
		assert.Equal(t, len(at), 1, "tries")
		assert.Equal(t, time.Since(begun), time.Second, "the time of the bubble")
	})
}

// TestLine: the key of a call, or none, or an error that does not show it.
func TestLine(t *testing.T) {
	t.Parallel()
	made := rpcidem.ClientOptions{NewKey: func() string { return "made" }}
	ctx := httpidem.ContextWithKey(t.Context(), "order 7")
	for _, o := range []*rpcidem.ClientOptions{{}, &made} {
		line, err := o.MetadataValue(ctx)
		assert.NoError(t, err, "a key of the context")
		key, err := httpidem.ParseKey([]string{line})
		assert.NoError(t, err, "%s", line)
		assert.Equal(t, key, "order 7", "the key that the server reads")
	}
	line, err := made.MetadataValue(t.Context())
	assert.NoError(t, err, "a made key")
	key, err := httpidem.ParseKey([]string{line})
	assert.True(t, err == nil && key == "made", "the made key: %s, %v", key, err)
	line, err = new(rpcidem.ClientOptions).MetadataValue(t.Context())
	assert.True(t, line == "" && err == nil, "no key: %q, %v", line, err)
	_, err = made.MetadataValue(httpidem.ContextWithKey(t.Context(), "kéy"))
	assert.True(t, err != nil, "a key that cannot be sent")
	assert.Equal(t, (*rpcidem.ClientOptions)(nil).WithDefaults().Metadata, rpcidem.DefaultMetadata, "the default name")
}
