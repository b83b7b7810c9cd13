package broken

import (
	"context"

	"github.com/retrysafe/retrysafe/internal/protocol"
	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/stores/storetest"
)

type (
	usage     = protocol.Usage
	chargeReq = storeapi.ChargeRequest
	charged   = storeapi.Charged
)

// limitStore is a store with another rule of counting.
type limitStore struct {
	*store
	charge func(cur usage, now micros, req *chargeReq) (usage, charged, bool)
	// unlocksBetween: another caller may come between reading and writing.
	unlocksBetween bool

	counts map[string]usage // guarded by the store's lock
}

func (l *limitStore) Charge(ctx context.Context, req chargeReq) (charged, error) {
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
	if l.unlocksBetween {
		l.letOthersIn()
	}
	l.counts[name] = next
	return got, nil
}

// limitMistakes are mistakes in counting.
func limitMistakes() []Broken {
	limit := func(name string, change func(*limitStore)) Broken {
		claims := plainFeatures
		claims.Limiter = true
		return Broken{name, "Limit", nil, nil, func(func(func())) storetest.Backend {
			clock := storetest.NewClock()
			l := &limitStore{store: newStore(clock.Now), charge: protocol.Charge, counts: map[string]usage{}}
			change(l)
			return storetest.Backend{Store: l, Advance: clock.Advance}
		}, claims}
	}
	return []Broken{
		limit("a refused key counts", func(l *limitStore) {
			l.charge = func(cur usage, now micros, req *chargeReq) (usage, charged, bool) {
				_, got, _ := protocol.Charge(cur, now, req)
				free := *req
				free.Limits = storeapi.Limits{}
				next, _, _ := protocol.Charge(cur, now, &free)
				return next, got, true
			}
		}),
		limit("a limit is looked at and then counted", func(l *limitStore) { l.unlocksBetween = true }),
		limit("more is given back than there was", func(l *limitStore) {
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
		limit("keys stop to count early", func(l *limitStore) {
			l.charge = func(cur usage, now micros, req *chargeReq) (usage, charged, bool) {
				short := *req
				short.For -= short.For / 10
				return protocol.Charge(cur, now, &short)
			}
		}),
		limit("keys never stop to count", func(l *limitStore) {
			l.charge = func(cur usage, now micros, req *chargeReq) (usage, charged, bool) {
				long := *req
				long.For = storeapi.Forever
				return protocol.Charge(cur, now, &long)
			}
		}),
		limit("no room for bytes is told to nobody", func(l *limitStore) {
			l.charge = func(cur usage, now micros, req *chargeReq) (usage, charged, bool) {
				free := *req
				free.Limits.Bytes = 0
				return protocol.Charge(cur, now, &free)
			}
		}),
		limit("a key that was given back is still of the rate", func(l *limitStore) {
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
