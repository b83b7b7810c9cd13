package packed

import (
	"context"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/protocol"
)

// Charge implements [retrysafe.Limiter].
func (s *Store) Charge(ctx context.Context, req retrysafe.ChargeRequest) (retrysafe.Charged, error) {
	if err := ctx.Err(); err != nil {
		return retrysafe.Charged{}, err
	}
	if err := req.Validate(); err != nil {
		return retrysafe.Charged{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	name := string(protocol.UsageName(req.Namespace, req.Tenant))
	cur, err := protocol.ParseUsage(s.usage[name])
	if err != nil {
		return retrysafe.Charged{}, err
	}
	next, charged, write := protocol.Charge(cur, s.clock().UnixMicro(), &req)
	if write {
		s.usage[name], err = next.AppendBinary(nil)
	}
	return charged, err
}
