package storetest

import (
	"context"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// usageClause: Usage reads what Charge has counted, and changes nothing.
func usageClause(e *env) {
	e.runSubtest("of nobody", func(e *env) {
		got := e.readUsage(e.chargeRequest(storeapi.Limits{}))
		assert.Equal(e, got, storeapi.Usage{Now: got.Now}, "usage of a tenant of which nothing was counted")
		assert.True(e, !got.Now.IsZero(), "it has the store's time")
	})
	e.runSubtest("keys and bytes", func(e *env) {
		req := e.chargeRequest(storeapi.Limits{Live: 3, Bytes: 100})
		req.Keys, req.Bytes = 2, 40
		before := e.now()
		e.wantCounted(req, "two keys and 40 bytes")
		for range 3 {
			got := e.readUsage(req)
			assert.Equal(e, [2]int64{got.Keys, got.Bytes}, [2]int64{2, 40}, "keys and bytes, however often they are read")
			assert.Equal(e, len(got.Rates), 0, "rates, without a rate")
			least, most := before.Add(req.For), e.now().Add(req.For+req.For/16)
			assert.True(e, !got.Frees.Before(least) && !got.Frees.After(most), "the first stops to count at %v, want %v to %v", got.Frees, least, most)
		}
		e.wantRefused(req, "two more")
		assert.Equal(e, e.readUsage(req).Keys, int64(2), "keys, after others were refused")
		req.Keys, req.Bytes = -1, -30
		e.wantCounted(req, "what is given back")
		got := e.readUsage(req)
		assert.Equal(e, [2]int64{got.Keys, got.Bytes}, [2]int64{1, 10}, "keys and bytes, after some were given back")
		req.Keys, req.Bytes = -1, 0
		e.wantCounted(req, "the other is given back")
		assert.True(e, e.readUsage(req).Frees.IsZero(), "no key stops to count, where only bytes count")
	})
	e.runSubtest("until their time has passed", func(e *env) {
		req := e.chargeRequest(storeapi.Limits{Live: 1})
		req.For = 8 * e.short
		e.wantCounted(req, "the first")
		e.passUntil(e.now().Add(req.For + req.For/16))
		got := e.readUsage(req)
		assert.Equal(e, got, storeapi.Usage{Now: got.Now}, "usage, when its time has passed")
	})
	e.runSubtest("the rate", func(e *env) {
		slow := e.chargeRequest(storeapi.Limits{PerSecond: 0.01, Burst: 3})
		e.wantCounted(slow, "the first of a burst of 3")
		e.wantCounted(slow, "the second")
		quick := slow
		quick.Limits = storeapi.Limits{PerSecond: 0.02, Burst: 1}
		e.wantCounted(quick, "one of another rate")
		got := e.readUsage(slow)
		assert.Equal(e, len(got.Rates), 2, "rates in use")
		assert.Equal(e, [2]float64{got.Rates[0].PerSecond, got.Rates[1].PerSecond}, [2]float64{0.01, 0.02}, "rates, the slowest first")
		assert.Equal(e, [2]int64{got.Rates[0].Used, got.Rates[1].Used}, [2]int64{2, 1}, "keys of their bursts that are taken")
		idle := got.Rates[0].Idle
		assert.True(e, idle > 100*time.Second && idle <= 200*time.Second, "the slow rate is idle in %v, want 100 s to 200 s", idle)
		assert.Equal(e, got.Keys, int64(3), "keys of all rates")
		e.wantCounted(slow, "the third of the burst: reading took none of it")
		e.wantRefused(slow, "the fourth")
		assert.Equal(e, e.readUsage(slow).Rates[0].Used, int64(3), "keys of the burst that are taken, when it is used up")
	})
	e.runSubtest("who", func(e *env) {
		one := e.chargeRequest(storeapi.Limits{Live: 1})
		e.wantCounted(one, "the first")
		for what, change := range map[string]func(*storeapi.ChargeRequest){
			"another tenant":    func(r *storeapi.ChargeRequest) { r.Tenant += "x" },
			"another namespace": func(r *storeapi.ChargeRequest) { r.Namespace += "x" },
		} {
			req := one
			change(&req)
			assert.Equal(e, e.readUsage(req).Keys, int64(0), "keys of %s", what)
		}
		for what, req := range map[string]storeapi.UsageRequest{
			"a tenant that is too long": {Namespace: "storetest", Tenant: strings.Repeat("x", storeapi.MaxPart+1)},
			"no namespace":              {Tenant: "t"},
		} {
			_, err := e.usageReader().Usage(e.ctx, req)
			assert.ErrorIs(e, err, storeapi.ErrInvalidKey, "Usage with %s", what)
		}
		ctx, cancel := context.WithCancel(e.ctx)
		cancel()
		_, err := e.usageReader().Usage(ctx, storeapi.UsageRequest{Namespace: "storetest", Tenant: "t"})
		assert.ErrorIs(e, err, context.Canceled, "Usage after the context has ended")
	})
	e.runSubtest("by another handle", func(e *env) {
		if e.Reopen == nil {
			return
		}
		req := e.chargeRequest(storeapi.Limits{Live: 1})
		e.wantCounted(req, "the first")
		other, ok := e.Reopen().(storeapi.UsageReader)
		assert.True(e, ok, "another handle reads too")
		got, err := other.Usage(e.ctx, storeapi.UsageRequest{Namespace: req.Namespace, Tenant: req.Tenant})
		assert.NoError(e, err, "Usage")
		assert.Equal(e, got.Keys, int64(1), "keys by another handle")
	})
}

func (e *env) usageReader() storeapi.UsageReader {
	e.Helper()
	s, ok := e.Store.(storeapi.UsageReader)
	assert.True(e, ok, "a store that claims UsageReader implements it")
	return s
}

// readUsage returns what the tenant of a charge uses.
func (e *env) readUsage(req storeapi.ChargeRequest) storeapi.Usage {
	e.Helper()
	got, err := e.usageReader().Usage(e.ctx, storeapi.UsageRequest{Namespace: req.Namespace, Tenant: req.Tenant})
	assert.NoError(e, err, "Usage")
	return got
}
