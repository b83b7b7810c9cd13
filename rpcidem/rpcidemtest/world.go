package rpcidemtest

import (
	"context"
	"log/slog"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/rpcidem"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// world is a guarded method and a client.
type world struct {
	t    *testing.T
	runs atomic.Int64
	call func(context.Context, Call) Answer
}

// newWorld returns a new world. A nil method answers with the number of its run.
func newWorld(t *testing.T, open Open, store storeapi.Store, o rpcidem.Options, m Method) *world {
	t.Helper()
	if store == nil {
		store = memstore.New(nil)
	}
	if o.Tenant == nil {
		o.Tenant = Tenant
	}
	wd := &world{t: t}
	wd.call = open(t, &Setup{
		Engine: newEngine(t, store), Options: &o, Client: &rpcidem.ClientOptions{Retry: rpcidem.Retry{MaxAttempts: 1}},
		Method: func(ctx context.Context, request string) (string, *Error) {
			n := wd.runs.Add(1)
			if m == nil {
				return "run " + strconv.FormatInt(n, 10) + " of " + request, nil
			}
			return m(ctx, request)
		},
	})
	return wd
}

func newEngine(t *testing.T, store storeapi.Store) *retrysafe.Engine {
	t.Helper()
	e := retrysafe.New(store, &retrysafe.Options{Sweep: -1, Secret: []byte("16 bytes or more"), Logger: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() { _ = e.Shutdown(context.Background()) })
	return e
}

// send makes one call of a tenant.
func (wd *world) send(tenant, key, request string) Answer {
	wd.t.Helper()
	c := Call{Tenant: tenant, Request: request}
	if key != "" {
		c.Keys = []string{key}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	return wd.call(ctx, c)
}

func (wd *world) checkRuns(want int64, what string) {
	wd.t.Helper()
	assert.Equal(wd.t, wd.runs.Load(), want, "runs %s", what)
}

// checkRefusal checks that an answer is this refusal.
func (wd *world) checkRefusal(a Answer, code rpcidem.Code, reason string, again bool) {
	wd.t.Helper()
	assert.Equal(wd.t, a.Reason, reason, "reason of %+v", a)
	assert.Equal(wd.t, a.Code, code, "code of %s", reason)
	assert.Equal(wd.t, a.RetryAfter > 0, again, "%s says when to come again (%v)", reason, a.RetryAfter)
	assert.Equal(wd.t, a.Replayed, false, "%s is marked as a replay", reason)
}
