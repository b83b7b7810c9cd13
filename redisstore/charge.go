package redisstore

import (
	"context"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/protocol"
	"github.com/retrysafe/retrysafe/redisclient"
)

var _ retrysafe.Limiter = (*Store)(nil)

// Charge implements [retrysafe.Limiter]: one script on one key for each tenant. The server removes
// the key when nothing counts any more. It does not wait for replicas: a failover may lose the
// latest counts.
func (s *Store) Charge(ctx context.Context, req retrysafe.ChargeRequest) (retrysafe.Charged, error) {
	if err := req.Validate(); err != nil {
		return retrysafe.Charged{}, err
	}
	if err := ctx.Err(); err != nil {
		return retrysafe.Charged{}, err
	}
	t := protocol.TermsOf(&req)
	a, err := s.read(s.client.Eval(ctx, redisclient.Call{
		Script: charge, Keys: []string{s.o.Prefix + string(protocol.UsageName(req.Namespace, req.Tenant))},
		Args: []string{
			number(t.Keys), number(t.Bytes), number(t.For), number(t.Width), number(t.Live), number(t.Stored), number(t.Every), number(t.Room),
		},
	}))
	if err != nil {
		return retrysafe.Charged{}, err
	}
	if a.code == done {
		return retrysafe.Charged{OK: true}, nil
	}
	if len(a.packed) != 8 {
		return retrysafe.Charged{}, errReply
	}
	return retrysafe.Charged{After: time.Duration(micros(a.packed)) * time.Microsecond}, nil
}
