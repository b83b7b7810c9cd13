package storetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// limitClause: Charge refuses only new keys that are over a limit. A refusal changes nothing. A
// counted key stops to count after its time, never before.
func limitClause(e *env) {
	e.runSubtest("as many as may live", func(e *env) {
		three := e.chargeRequest(storeapi.Limits{Live: 3})
		for i := range 3 {
			e.wantCounted(three, "key %d of 3", i+1)
		}
		for range 10 {
			e.wantPlausibleWait(e.wantRefused(three, "a fourth"))
		}
		four := three
		four.Limits.Live = 4
		e.wantCounted(four, "one more, where four may live: what was refused does not count")
		e.wantRefused(four, "a fifth")
		free := three
		free.Limits = storeapi.Limits{Live: -1, PerSecond: -1, Bytes: -1}
		for range 10 {
			e.wantCounted(free, "without a limit")
		}
		four.Limits.Live = 14
		e.wantRefused(four, "a fifteenth: what came without a limit counts too")
	})
	e.runSubtest("what is given back", func(e *env) {
		two, back := e.chargeRequest(storeapi.Limits{Live: 2}), e.chargeRequest(storeapi.Limits{Live: 2})
		back.Keys = -1
		for range 5 {
			e.wantCounted(back, "more is given back than was taken")
		}
		for round := range 3 {
			e.wantCounted(two, "the first of two, round %d", round)
			e.wantCounted(two, "the second of two, round %d", round)
			e.wantRefused(two, "a third, round %d", round)
			e.wantCounted(back, "one is given back")
			e.passTime(e.short)
			e.wantCounted(two, "another in its place")
			e.wantRefused(two, "a third")
			e.wantCounted(back, "one is given back")
			e.wantCounted(back, "the other is given back")
		}
	})
	e.runSubtest("until their time has passed", func(e *env) {
		one := e.chargeRequest(storeapi.Limits{Live: 1})
		one.For = 8 * e.short
		begun := e.now()
		e.wantCounted(one, "the first")
		latest := e.now()
		if e.Advance != nil {
			e.passUntil(begun.Add(one.For - e.brink))
			e.wantRefused(one, "a second, just before the time of the first has passed")
		} else {
			e.passTime(one.For / 4)
			got := e.charge(one)
			assert.True(e, !got.OK || !e.now().Before(begun.Add(one.For)), "a second is counted before the time of the first has passed")
			if got.OK { // the machine was delayed for that long
				return
			}
		}
		e.passUntil(latest.Add(one.For + one.For/16))
		begun = e.now()
		e.wantCounted(one, "a second, when the time of the first has passed")
		got := e.charge(one)
		assert.True(e, !got.OK || !e.now().Before(begun.Add(one.For)), "a third is counted before the time of the second has passed")
	})
	e.runSubtest("for ever", func(e *env) {
		one := e.chargeRequest(storeapi.Limits{Live: 1})
		one.For = storeapi.Forever
		e.wantCounted(one, "the first")
		e.passTime(e.short)
		if e.Advance != nil {
			e.passTime(1000 * 24 * time.Hour)
		}
		assert.Equal(e, e.wantRefused(one, "a second"), time.Minute, "when to ask again for what never passes")
	})
	e.runSubtest("bytes", func(e *env) {
		key, bytes := e.chargeRequest(storeapi.Limits{Bytes: 100}), e.chargeRequest(storeapi.Limits{Bytes: 100})
		bytes.Keys = 0
		for range 3 {
			e.wantCounted(key, "a key, while less is stored")
			bytes.Bytes = 33
			e.wantCounted(bytes, "what is stored")
		}
		e.wantCounted(key, "a key beside 99 bytes")
		bytes.Bytes = 1000
		e.wantCounted(bytes, "more than there is room for is counted all the same")
		e.wantPlausibleWait(e.wantRefused(key, "a key, when there is no room"))
		bytes.Bytes = -1000
		e.wantCounted(bytes, "what is given back")
		e.wantCounted(key, "a key beside 99 bytes again")
		bytes.Bytes = 1
		e.wantCounted(bytes, "the last byte")
		e.wantRefused(key, "a key beside 100 bytes")
	})
	e.runSubtest("the rate", func(e *env) {
		slow := e.chargeRequest(storeapi.Limits{PerSecond: 0.01, Burst: 3}) // one in 100 s
		begun := e.now()
		for i := range 3 {
			e.wantCounted(slow, "key %d of a burst of 3", i+1)
		}
		for range 10 {
			after := e.wantRefused(slow, "a fourth")
			left := begun.Add(100 * time.Second).Sub(e.now())
			assert.True(e, after <= 100*time.Second && after >= left, "when to ask again: got %v, want %v to 100s", after, left)
		}
		back := slow
		back.Keys = -1
		e.wantCounted(back, "one is given back")
		e.wantCounted(slow, "another in its place")
		e.wantRefused(slow, "one more")

		quick := e.chargeRequest(storeapi.Limits{PerSecond: 1 / e.short.Seconds(), Burst: 1})
		after := time.Duration(0)
		for n := 0; after == 0; n++ { // a slow machine admits some
			if got := e.charge(quick); !got.OK {
				after = got.After
			}
			assert.True(e, n < 10_000, "a rate of one in %v refuses some", e.short)
		}
		assert.True(e, after <= e.short, "when to ask again: got %v, want at most %v", after, e.short)
		e.passTime(after)
		e.wantCounted(quick, "after that time")
		e.passTime(10 * e.short)
		burst := quick
		burst.Limits.Burst = 2
		e.wantCounted(burst, "the first after a rest")
		e.wantCounted(burst, "the second: a rest saves up a burst")
	})
	e.runSubtest("what is refused for one limit does not count for another", func(e *env) {
		full := e.chargeRequest(storeapi.Limits{Live: 1, PerSecond: 0.01, Burst: 2})
		e.wantCounted(full, "the first")
		for range 10 {
			e.wantRefused(full, "what may not live")
		}
		full.Limits.Live = 2
		e.wantCounted(full, "the second of the burst")
		full.Limits.Live = 3
		e.wantRefused(full, "the third: the burst is over")
		full.Limits.PerSecond = -1
		e.wantCounted(full, "the third that lives")
		e.wantRefused(full, "the fourth")
	})
	e.runSubtest("who", func(e *env) {
		base := e.chargeRequest(storeapi.Limits{Live: 1})
		for _, name := range []string{"", "a", "A", "a ", "ä", "a/b", "a%2Fb", "a\x00", "\xff", strings.Repeat("x", storeapi.MaxPart)} {
			for _, namespace := range []string{"storetest-" + e.salt, "other-" + e.salt} {
				req := base
				req.Namespace, req.Tenant = namespace, name
				e.wantCounted(req, "the first of %+q in %s", name, namespace)
				e.wantRefused(req, "the second of %+q in %s", name, namespace)
			}
		}
		for what, change := range map[string]func(*storeapi.ChargeRequest){
			"a tenant that is too long":    func(r *storeapi.ChargeRequest) { r.Tenant = strings.Repeat("x", storeapi.MaxPart+1) },
			"a namespace that is too long": func(r *storeapi.ChargeRequest) { r.Namespace = strings.Repeat("x", storeapi.MaxPart+1) },
			"no namespace":                 func(r *storeapi.ChargeRequest) { r.Namespace = "" },
		} {
			req := base
			change(&req)
			_, err := e.limiter().Charge(e.ctx, req)
			assert.ErrorIs(e, err, storeapi.ErrInvalidKey, "Charge with %s", what)
		}
		base.For = 0
		_, err := e.limiter().Charge(e.ctx, base)
		assert.True(e, err != nil, "Charge for no time is an error")
	})
	e.runSubtest("many at once", func(e *env) {
		for name, l := range map[string]storeapi.Limits{"live": {Live: 5}, "rate": {PerSecond: 0.0001, Burst: 5}} {
			req := e.chargeRequest(l)
			ok := callAtOnce(crowd, func(int) bool {
				got, err := e.limiter().Charge(e.ctx, req)
				return err == nil && got.OK
			})
			n := len(slices.DeleteFunc(ok, func(ok bool) bool { return !ok }))
			assert.Equal(e, n, 5, "keys that were counted of %d at once, %s", crowd, name)
		}
	})
	e.runSubtest("by another handle", func(e *env) {
		if e.Reopen == nil {
			return
		}
		req := e.chargeRequest(storeapi.Limits{Live: 1})
		e.wantCounted(req, "the first")
		other, ok := e.Reopen().(storeapi.Limiter)
		assert.True(e, ok, "another handle counts too")
		got, err := other.Charge(e.ctx, req)
		assert.NoError(e, err, "Charge")
		assert.True(e, !got.OK, "a second by another handle is refused")
	})
	e.runSubtest("of callers that have left", func(e *env) {
		req := e.chargeRequest(storeapi.Limits{Live: 1})
		ctx, cancel := context.WithCancel(e.ctx)
		cancel()
		_, err := e.limiter().Charge(ctx, req)
		assert.ErrorIs(e, err, context.Canceled, "Charge after the context has ended")
		e.wantCounted(req, "the first")
	})
}

// chargeRequest returns a request for one new key of a tenant. Within a subtest, requests with
// equal limits have the same tenant.
func (e *env) chargeRequest(l storeapi.Limits) storeapi.ChargeRequest {
	return storeapi.ChargeRequest{Namespace: "storetest", Tenant: fmt.Sprint(e.salt, l), Keys: 1, For: retention, Limits: l}
}

func (e *env) limiter() storeapi.Limiter {
	e.Helper()
	s, ok := e.Store.(storeapi.Limiter)
	assert.True(e, ok, "a store that claims Limiter implements it")
	return s
}

func (e *env) charge(req storeapi.ChargeRequest) storeapi.Charged {
	e.Helper()
	got, err := e.limiter().Charge(e.ctx, req)
	assert.NoError(e, err, "Charge")
	return got
}

// wantCounted wants the charge to be accepted.
func (e *env) wantCounted(req storeapi.ChargeRequest, what string, args ...any) {
	e.Helper()
	got := e.charge(req)
	assert.True(e, got.OK, "%s is counted, not refused for %v", fmt.Sprintf(what, args...), got.After)
}

// wantRefused wants the charge to be refused, and returns when to retry.
func (e *env) wantRefused(req storeapi.ChargeRequest, what string, args ...any) time.Duration {
	e.Helper()
	got := e.charge(req)
	assert.True(e, !got.OK, "%s is refused", fmt.Sprintf(what, args...))
	assert.True(e, got.After > 0, "%s is told when to ask again", fmt.Sprintf(what, args...))
	return got.After
}

// wantPlausibleWait wants a plausible time to wait until a live key has expired.
func (e *env) wantPlausibleWait(after time.Duration) {
	e.Helper()
	assert.True(e, after >= time.Second && after <= time.Minute, "when to ask again: got %v, want 1s to 1m", after)
}
