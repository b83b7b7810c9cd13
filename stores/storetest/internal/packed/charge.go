package packed

import (
	"context"

	"github.com/retrysafe/retrysafe/internal/protocol"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

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
	name := string(protocol.UsageName(req.Namespace, req.Tenant))
	cur, err := protocol.ParseUsage(s.usage[name])
	if err != nil {
		return storeapi.Charged{}, err
	}
	next, charged, write := protocol.Charge(cur, s.clock().UnixMicro(), &req)
	if write {
		s.usage[name], err = next.AppendBinary(nil)
	}
	return charged, err
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
	u, err := protocol.ParseUsage(s.usage[string(protocol.UsageName(req.Namespace, req.Tenant))])
	return u.Report(s.clock().UnixMicro()), err
}
