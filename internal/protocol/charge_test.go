package protocol_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/protocol"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

func TestTerms(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		span   time.Duration
		limits storeapi.Limits
		want   protocol.Terms
	}{
		{time.Microsecond, storeapi.Limits{}, protocol.Terms{For: 1, Width: 1}},
		{32 * time.Microsecond, storeapi.Limits{Live: 3, Bytes: 4}, protocol.Terms{For: 32, Width: 2, Live: 3, Stored: 4}},
		{31 * time.Microsecond, storeapi.Limits{Live: -3, Bytes: -4, PerSecond: -1}, protocol.Terms{For: 31, Width: 1}},
		{24 * time.Hour, storeapi.Limits{PerSecond: 50, Burst: 100}, protocol.Terms{For: 86_400_000_000, Width: 1 << 32, Every: 20_000, Room: 2_000_000}},
		{storeapi.Forever, storeapi.Limits{PerSecond: 0.5}, protocol.Terms{For: 1 << 53, Width: 1 << 49, Every: 2_000_000, Room: 2_000_000}},
		{time.Second, storeapi.Limits{PerSecond: 3}, protocol.Terms{For: 1_000_000, Width: 32768, Every: 333_334, Room: 1_000_002}},
		{time.Second, storeapi.Limits{PerSecond: 1e9, Burst: 1}, protocol.Terms{For: 1_000_000, Width: 32768, Every: 1, Room: 1}},
	} {
		assert.Equal(t, protocol.TermsOf(&storeapi.ChargeRequest{For: tt.span, Limits: tt.limits}), tt.want, "%v, %+v", tt.span, tt.limits)
	}
}

// TestChargeWalk makes long random sequences of charges, and compares the counts with a list of all
// counted keys.
func TestChargeWalk(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 2))
		now, u := minute, protocol.Usage{}
		type entry struct{ soonest, latest protocol.Micros }
		var live []entry // of keys that may still count, in order
		span := time.Duration(1+rnd.IntN(100)) * time.Second
		for step := range 300 {
			now += rnd.Int64N(20) * second / 10
			live = slices.DeleteFunc(live, func(e entry) bool { return e.latest <= now })
			req := &storeapi.ChargeRequest{
				Namespace: "n", Keys: rnd.Int64N(3) - 1, For: span,
				Limits: storeapi.Limits{Live: rnd.Int64N(12) + 1, PerSecond: []float64{0, 1, 5}[rnd.IntN(3)], Burst: rnd.Int64N(4)},
			}
			before := slices.Clone(u.Buckets)
			next, got, write := protocol.Charge(u, now, req)
			assert.Equal(t, u.Buckets, before, "seed %d, step %d: what was counted before is not changed in place", seed, step)
			assert.Equal(t, write, got.OK, "seed %d, step %d: what is refused is not written", seed, step)
			sure := int64(0)
			for _, e := range live {
				if e.soonest > now {
					sure++
				}
			}
			switch {
			case req.Keys > 0 && got.OK:
				assert.True(t, sure < req.Limits.Live, "seed %d, step %d: %d live and another is let in, the limit is %d", seed, step, sure, req.Limits.Live)
				ends := now + req.For.Microseconds()
				live = append(live, entry{ends, ends + req.For.Microseconds()/16})
			case req.Keys > 0:
				assert.True(t, got.After > 0, "seed %d, step %d: when to ask again", seed, step)
				if req.Limits.PerSecond == 0 {
					assert.True(t, int64(len(live)) >= req.Limits.Live, "seed %d, step %d: at most %d live and another is refused, the limit is %d", seed, step, len(live), req.Limits.Live)
				}
			case req.Keys < 0 && sure > 0: // the last one is given back
				live = live[:len(live)-1]
			}
			for i, b := range next.Buckets {
				assert.True(t, b.Keys > 0 && (i == 0 || next.Buckets[i-1].Ends < b.Ends), "seed %d, step %d: buckets in order, none empty: %+v", seed, step, next.Buckets)
			}
			assert.True(t, len(next.Buckets) <= 34, "seed %d, step %d: %d buckets", seed, step, len(next.Buckets))
			u = next
		}
	}
}

// TestRatesApart: a route with its own rate neither slows the others down nor speeds them up.
func TestRatesApart(t *testing.T) {
	t.Parallel()
	charge := func(u *protocol.Usage, now protocol.Micros, perSecond float64) bool {
		next, got, _ := protocol.Charge(*u, now, &storeapi.ChargeRequest{
			Namespace: "n", Keys: 1, For: time.Hour, Limits: storeapi.Limits{PerSecond: perSecond, Burst: 1},
		})
		*u = next
		return got.OK
	}
	var u protocol.Usage
	slow, fast := 0, 0
	for i := range int64(10_000) { // ten seconds
		now := minute + i*1000
		if charge(&u, now, 1) {
			slow++
		}
		if charge(&u, now, 100) {
			fast++
		}
	}
	assert.Equal(t, slow, 10, "new keys in ten seconds at 1/s")
	assert.Equal(t, fast, 1000, "new keys in ten seconds at 100/s")
}

// TestRatesAreBounded: a tenant has at most 256 rates at once, so that its counts stay small. The
// existing ones continue to work.
func TestRatesAreBounded(t *testing.T) {
	t.Parallel()
	var u protocol.Usage
	charge := func(now protocol.Micros, every, keys int64) storeapi.Charged {
		next, got, _ := protocol.Charge(u, now, &storeapi.ChargeRequest{
			Namespace: "n", Keys: keys, For: time.Hour, Limits: storeapi.Limits{PerSecond: 1 / float64(every), Burst: 2},
		})
		u = next
		return got
	}
	for i := range int64(256) {
		assert.True(t, charge(minute, 1000+i, 1).OK, "rate %d", i)
	}
	assert.Equal(t, charge(minute, 2000, 1), storeapi.Charged{After: time.Second}, "one more")
	assert.True(t, charge(minute, 1000, 1).OK, "one that is there")
	assert.True(t, charge(minute, 2000, -1).OK, "one that is given back")
	assert.Equal(t, len(u.Rates), 256, "rates")
	assert.True(t, charge(minute+1002*second, 2000, 1).OK, "one more when one has passed")
}
