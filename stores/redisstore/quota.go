package redisstore

import (
	"context"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe/internal/protocol"
	"github.com/retrysafe/retrysafe/redisclient"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

var (
	_ storeapi.Limiter     = (*Store)(nil)
	_ storeapi.UsageReader = (*Store)(nil)
)

// Charge implements [storeapi.Limiter]: one script on one key for each tenant. The server removes
// the key when nothing counts any more. It does not wait for replicas: a failover may lose the
// latest counts.
func (s *Store) Charge(ctx context.Context, req storeapi.ChargeRequest) (storeapi.Charged, error) {
	if err := req.Validate(); err != nil {
		return storeapi.Charged{}, err
	}
	if err := ctx.Err(); err != nil {
		return storeapi.Charged{}, err
	}
	t := protocol.TermsOf(&req)
	a, err := s.readReply(s.client.Eval(ctx, redisclient.Call{
		Script: charge, Keys: []string{s.usageKey(req.Namespace, req.Tenant)},
		Args: []string{
			formatInt(t.Keys), formatInt(t.Bytes), formatInt(t.For), formatInt(t.Width), formatInt(t.Live), formatInt(t.Stored), formatInt(t.Every), formatInt(t.Room),
		},
	}))
	if err != nil {
		return storeapi.Charged{}, err
	}
	if a.code == codeDone {
		return storeapi.Charged{OK: true}, nil
	}
	if len(a.packed) != 8 {
		return storeapi.Charged{}, errReply
	}
	return storeapi.Charged{After: time.Duration(parseMicros(a.packed)) * time.Microsecond}, nil
}

// Usage implements [storeapi.UsageReader]: one script that only reads.
func (s *Store) Usage(ctx context.Context, req storeapi.UsageRequest) (storeapi.Usage, error) {
	if err := req.Validate(); err != nil {
		return storeapi.Usage{}, err
	}
	if err := ctx.Err(); err != nil {
		return storeapi.Usage{}, err
	}
	a, err := s.readReply(s.client.Eval(ctx, redisclient.Call{Script: usage, Keys: []string{s.usageKey(req.Namespace, req.Tenant)}}))
	if err != nil {
		return storeapi.Usage{}, err
	}
	u, err := protocol.ParseUsage(a.packed)
	if err != nil {
		return storeapi.Usage{}, fmt.Errorf("redisstore: %w", err)
	}
	return u.Report(a.now), nil
}

// usageKey returns the Redis key of a tenant's counts.
func (s *Store) usageKey(namespace, tenant string) string {
	return s.o.Prefix + string(protocol.UsageName(namespace, tenant))
}
