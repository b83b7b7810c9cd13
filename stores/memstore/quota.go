package memstore

import (
	"context"

	"github.com/retrysafe/retrysafe/internal/protocol"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

var (
	_ storeapi.Limiter     = (*Store)(nil)
	_ storeapi.UsageReader = (*Store)(nil)
)

// tenant is the owner of counted keys.
type tenant struct{ namespace, name string }

// Charge implements [storeapi.Limiter].
func (s *Store) Charge(ctx context.Context, req storeapi.ChargeRequest) (storeapi.Charged, error) {
	if err := ctx.Err(); err != nil {
		return storeapi.Charged{}, err
	}
	if err := req.Validate(); err != nil {
		return storeapi.Charged{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	who := tenant{req.Namespace, req.Tenant}
	next, charged, write := protocol.Charge(s.usage[who], s.clock().UnixMicro(), &req)
	switch {
	case write && next.Empty():
		delete(s.usage, who)
	case write:
		s.usage[who] = next
	}
	return charged, nil
}

// Usage implements [storeapi.UsageReader].
func (s *Store) Usage(ctx context.Context, req storeapi.UsageRequest) (storeapi.Usage, error) {
	if err := ctx.Err(); err != nil {
		return storeapi.Usage{}, err
	}
	if err := req.Validate(); err != nil {
		return storeapi.Usage{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.usage[tenant{req.Namespace, req.Tenant}]
	return u.Report(s.clock().UnixMicro()), nil
}

// sweepUsage removes tenants without any live count.
func (s *Store) sweepUsage(now protocol.Micros) {
	for who, u := range s.usage {
		if u.Expires() <= now {
			delete(s.usage, who)
		}
	}
}
