package storetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/storeapi"
)

// limit: Charge refuses only new keys that are over a limit. A refusal changes nothing. A counted
// key stops to count after its time, never before.
func limit(e *env) {
	e.run("as many as may live", func(e *env) {
		three := e.charging(storeapi.Limits{Live: 3})
		for i := range 3 {
			e.counted(three, "key %d of 3", i+1)
		}
		for range 10 {
			e.waits(e.refused(three, "a fourth"))
		}
		four := three
		four.Limits.Live = 4
		e.counted(four, "one more, where four may live: what was refused does not count")
		e.refused(four, "a fifth")
		free := three
		free.Limits = storeapi.Limits{Live: -1, PerSecond: -1, Bytes: -1}
		for range 10 {
			e.counted(free, "without a limit")
		}
		four.Limits.Live = 14
		e.refused(four, "a fifteenth: what came without a limit counts too")
	})
	e.run("what is given back", func(e *env) {
		two, back := e.charging(storeapi.Limits{Live: 2}), e.charging(storeapi.Limits{Live: 2})
		back.Keys = -1
		for range 5 {
			e.counted(back, "more is given back than was taken")
		}
		for round := range 3 {
			e.counted(two, "the first of two, round %d", round)
			e.counted(two, "the second of two, round %d", round)
			e.refused(two, "a third, round %d", round)
			e.counted(back, "one is given back")
			e.pass(e.short)
			e.counted(two, "another in its place")
			e.refused(two, "a third")
			e.counted(back, "one is given back")
			e.counted(back, "the other is given back")
		}
	})
	e.run("until their time has passed", func(e *env) {
		one := e.charging(storeapi.Limits{Live: 1})
		one.For = 8 * e.short
		begun := e.now()
		e.counted(one, "the first")
		latest := e.now()
		if e.Advance != nil {
			e.passUntil(begun.Add(one.For - e.brink))
			e.refused(one, "a second, just before the time of the first has passed")
		} else {
			e.pass(one.For / 4)
			got := e.charge(one)
			assert.True(e, !got.OK || !e.now().Before(begun.Add(one.For)), "a second is counted before the time of the first has passed")
			if got.OK { // the machine was delayed for that long
				return
			}
		}
		e.passUntil(latest.Add(one.For + one.For/16))
		e.counted(one, "a second, when the time of the first has passed")
		e.refused(one, "a third")
	})
	e.run("for ever", func(e *env) {
		one := e.charging(storeapi.Limits{Live: 1})
		one.For = storeapi.Forever
		e.counted(one, "the first")
		e.pass(e.short)
		if e.Advance != nil {
			e.pass(1000 * 24 * time.Hour)
		}
		assert.Equal(e, e.refused(one, "a second"), time.Minute, "when to ask again for what never passes")
	})
	e.run("bytes", func(e *env) {
		key, bytes := e.charging(storeapi.Limits{Bytes: 100}), e.charging(storeapi.Limits{Bytes: 100})
		bytes.Keys = 0
		for range 3 {
			e.counted(key, "a key, while less is stored")
			bytes.Bytes = 33
			e.counted(bytes, "what is stored")
		}
		e.counted(key, "a key beside 99 bytes")
		bytes.Bytes = 1000
		e.counted(bytes, "more than there is room for is counted all the same")
		e.waits(e.refused(key, "a key, when there is no room"))
		bytes.Bytes = -1000
		e.counted(bytes, "what is given back")
		e.counted(key, "a key beside 99 bytes again")
		bytes.Bytes = 1
		e.counted(bytes, "the last byte")
		e.refused(key, "a key beside 100 bytes")
	})
	e.run("the rate", func(e *env) {
		slow := e.charging(storeapi.Limits{PerSecond: 0.01, Burst: 3}) // one in 100 s
		begun := e.now()
		for i := range 3 {
			e.counted(slow, "key %d of a burst of 3", i+1)
		}
		for range 10 {
			after := e.refused(slow, "a fourth")
			left := begun.Add(100 * time.Second).Sub(e.now())
			assert.True(e, after <= 100*time.Second && after >= left, "when to ask again: got %v, want %v to 100s", after, left)
		}
		back := slow
		back.Keys = -1
		e.counted(back, "one is given back")
		e.counted(slow, "another in its place")
		e.refused(slow, "one more")

		quick := e.charging(storeapi.Limits{PerSecond: 1 / e.short.Seconds(), Burst: 1})
		after := time.Duration(0)
		for n := 0; after == 0; n++ { // a slow machine admits some
			if got := e.charge(quick); !got.OK {
				after = got.After
			}
			assert.True(e, n < 10_000, "a rate of one in %v refuses some", e.short)
		}
		assert.True(e, after <= e.short, "when to ask again: got %v, want at most %v", after, e.short)
		e.pass(after)
		e.counted(quick, "after that time")
		e.pass(10 * e.short)
		burst := quick
		burst.Limits.Burst = 2
		e.counted(burst, "the first after a rest")
		e.counted(burst, "the second: a rest saves up a burst")
	})
	e.run("what is refused for one limit does not count for another", func(e *env) {
		full := e.charging(storeapi.Limits{Live: 1, PerSecond: 0.01, Burst: 2})
		e.counted(full, "the first")
		for range 10 {
			e.refused(full, "what may not live")
		}
		full.Limits.Live = 2
		e.counted(full, "the second of the burst")
		full.Limits.Live = 3
		e.refused(full, "the third: the burst is over")
		full.Limits.PerSecond = -1
		e.counted(full, "the third that lives")
		e.refused(full, "the fourth")
	})
	e.run("who", func(e *env) {
		base := e.charging(storeapi.Limits{Live: 1})
		for _, name := range []string{"", "a", "A", "a ", "ä", "a/b", "a%2Fb", "a\x00", "\xff", strings.Repeat("x", storeapi.MaxPart)} {
			for _, namespace := range []string{"storetest-" + e.salt, "other-" + e.salt} {
				req := base
				req.Namespace, req.Tenant = namespace, name
				e.counted(req, "the first of %+q in %s", name, namespace)
				e.refused(req, "the second of %+q in %s", name, namespace)
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
	e.run("many at once", func(e *env) {
		for name, l := range map[string]storeapi.Limits{"live": {Live: 5}, "rate": {PerSecond: 0.0001, Burst: 5}} {
			req := e.charging(l)
			ok := atOnce(crowd, func(int) bool {
				got, err := e.limiter().Charge(e.ctx, req)
				return err == nil && got.OK
			})
			n := len(slices.DeleteFunc(ok, func(ok bool) bool { return !ok }))
			assert.Equal(e, n, 5, "keys that were counted of %d at once, %s", crowd, name)
		}
	})
	e.run("by another handle", func(e *env) {
		if e.Reopen == nil {
			return
		}
		req := e.charging(storeapi.Limits{Live: 1})
		e.counted(req, "the first")
		other, ok := e.Reopen().(storeapi.Limiter)
		assert.True(e, ok, "another handle counts too")
		got, err := other.Charge(e.ctx, req)
		assert.NoError(e, err, "Charge")
		assert.True(e, !got.OK, "a second by another handle is refused")
	})
	e.run("of callers that have left", func(e *env) {
		req := e.charging(storeapi.Limits{Live: 1})
		ctx, cancel := context.WithCancel(e.ctx)
		cancel()
		_, err := e.limiter().Charge(ctx, req)
		assert.ErrorIs(e, err, context.Canceled, "Charge after the context has ended")
		e.counted(req, "the first")
	})
}

// charging returns a request for one new key of a tenant. Within a subtest, requests with equal
// limits have the same tenant.
func (e *env) charging(l storeapi.Limits) storeapi.ChargeRequest {
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

// counted wants the charge to be accepted.
func (e *env) counted(req storeapi.ChargeRequest, what string, args ...any) {
	e.Helper()
	got := e.charge(req)
	assert.True(e, got.OK, "%s is counted, not refused for %v", fmt.Sprintf(what, args...), got.After)
}

// refused wants the charge to be refused, and returns when to retry.
func (e *env) refused(req storeapi.ChargeRequest, what string, args ...any) time.Duration {
	e.Helper()
	got := e.charge(req)
	assert.True(e, !got.OK, "%s is refused", fmt.Sprintf(what, args...))
	assert.True(e, got.After > 0, "%s is told when to ask again", fmt.Sprintf(what, args...))
	return got.After
}

// waits wants a plausible time to wait until a live key has expired.
func (e *env) waits(after time.Duration) {
	e.Helper()
	assert.True(e, after >= time.Second && after <= time.Minute, "when to ask again: got %v, want 1s to 1m", after)
}
