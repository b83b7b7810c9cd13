package broken

import (
	"context"

	"github.com/retrysafe/retrysafe/internal/protocol"
	"github.com/retrysafe/retrysafe/storeapi"
	"github.com/retrysafe/retrysafe/storetest"
)

type (
	usage     = protocol.Usage
	chargeReq = storeapi.ChargeRequest
	charged   = storeapi.Charged
)

// limiting is a store with another rule of counting.
type limiting struct {
	*store
	charge func(cur usage, now micros, req *chargeReq) (usage, charged, bool)
	// gap: another caller may come between reading and writing.
	gap bool

	counts map[string]usage // guarded by the store's lock
}

func (l *limiting) Charge(ctx context.Context, req chargeReq) (charged, error) {
	if err := ctx.Err(); err != nil {
		return charged{}, err
	}
	if err := req.Validate(); err != nil {
		return charged{}, err
	}
	name := string(protocol.UsageName(req.Namespace, req.Tenant))
	l.mu.Lock()
	defer l.mu.Unlock()
	next, got, write := l.charge(l.counts[name], l.clock().UnixMicro(), &req)
	if !write {
		return got, nil
	}
	if l.gap {
		l.letGo()
	}
	l.counts[name] = next
	return got, nil
}

// limits are mistakes in counting.
func limits() []Broken {
	limit := func(name string, change func(*limiting)) Broken {
		claims := plain
		claims.Limiter = true
		return Broken{name, "Limit", nil, nil, func(func(func())) storetest.Backend {
			clock := storetest.NewClock()
			l := &limiting{store: newStore(clock.Now), charge: protocol.Charge, counts: map[string]usage{}}
			change(l)
			return storetest.Backend{Store: l, Advance: clock.Advance}
		}, claims}
	}
	return []Broken{
		limit("a refused key counts", func(l *limiting) {
			l.charge = func(cur usage, now micros, req *chargeReq) (usage, charged, bool) {
				_, got, _ := protocol.Charge(cur, now, req)
				free := *req
				free.Limits = storeapi.Limits{}
				next, _, _ := protocol.Charge(cur, now, &free)
				return next, got, true
			}
		}),
		limit("a limit is looked at and then counted", func(l *limiting) { l.gap = true }),
		limit("more is given back than there was", func(l *limiting) {
			l.charge = func(cur usage, now micros, req *chargeReq) (usage, charged, bool) {
				if req.Keys < 0 {
					cur.Buckets = append(cur.Buckets[:len(cur.Buckets):len(cur.Buckets)], protocol.Bucket{Ends: now + 1e12, Keys: req.Keys})
					return cur, charged{OK: true}, true
				}
				for _, b := range cur.Buckets {
					if b.Keys < 0 && req.Limits.Live > 0 {
						wide := *req
						wide.Limits.Live -= b.Keys
						return protocol.Charge(cur, now, &wide)
					}
				}
				return protocol.Charge(cur, now, req)
			}
		}),
		limit("keys stop to count early", func(l *limiting) {
			l.charge = func(cur usage, now micros, req *chargeReq) (usage, charged, bool) {
				short := *req
				short.For -= short.For / 10
				return protocol.Charge(cur, now, &short)
			}
		}),
		limit("keys never stop to count", func(l *limiting) {
			l.charge = func(cur usage, now micros, req *chargeReq) (usage, charged, bool) {
				long := *req
				long.For = storeapi.Forever
				return protocol.Charge(cur, now, &long)
			}
		}),
		limit("no room for bytes is told to nobody", func(l *limiting) {
			l.charge = func(cur usage, now micros, req *chargeReq) (usage, charged, bool) {
				free := *req
				free.Limits.Bytes = 0
				return protocol.Charge(cur, now, &free)
			}
		}),
		limit("a key that was given back is still of the rate", func(l *limiting) {
			l.charge = func(cur usage, now micros, req *chargeReq) (usage, charged, bool) {
				part := *req
				if part.Keys < 0 {
					part.Limits.PerSecond = 0
				}
				return protocol.Charge(cur, now, &part)
			}
		}),
	}
}
