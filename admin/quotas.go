package admin

import (
	"context"
	"errors"
	"time"

	"github.com/retrysafe/retrysafe/storeapi"
)

// ErrNoQuotas says that a store does not report what tenants use.
var ErrNoQuotas = errors.New("this store does not report what tenants use")

// Usage returns what a tenant uses of its limits, or [ErrNoQuotas].
func (d *Records) Usage(ctx context.Context, req storeapi.UsageRequest) (storeapi.Usage, error) {
	reader, ok := d.store.(storeapi.UsageReader)
	if !ok {
		return storeapi.Usage{}, ErrNoQuotas
	}
	u, err := reader.Usage(ctx, req)
	if errors.Is(err, errors.ErrUnsupported) {
		err = ErrNoQuotas
	}
	return u, err
}

// tenantJSON names a caller of the service.
type tenantJSON struct {
	Namespace string `json:"namespace,omitempty" doc:"the service; absent: the server's own"`
	Tenant    string `json:"tenant" doc:"the caller, or empty; in the body, so that it stands in no log"`
}

// quotaJSON is what a tenant uses of its limits. The limits are in the service's configuration,
// which the store does not know.
type quotaJSON struct {
	Keys  int64           `json:"keys" doc:"keys within their time, to compare with live"`
	Bytes int64           `json:"bytes" doc:"bytes stored, to compare with bytes"`
	Frees *time.Time      `json:"frees,omitempty" doc:"when the first of the keys stops to count; absent: none counts"`
	Rates []rateQuotaJSON `json:"rates" doc:"rates of which keys were counted lately, the slowest first; others are idle"`
}

// rateQuotaJSON is how full the burst of a rate is.
type rateQuotaJSON struct {
	PerSecond float64 `json:"per_second" doc:"the rate, in new keys a second"`
	Used      int64   `json:"used" doc:"keys of the burst that are taken; a new key is refused while that is burst or more"`
	Idle      float64 `json:"idle_s" doc:"seconds until the whole burst is free, if no key comes"`
}

func findQuota(c *call) (any, error) {
	var in tenantJSON
	if err := c.decode(&in); err != nil {
		return nil, err
	}
	namespace, err := c.namespace(in.Namespace)
	if err != nil {
		return nil, err
	}
	req := storeapi.UsageRequest{Namespace: namespace, Tenant: in.Tenant}
	if err := req.Validate(); err != nil {
		return nil, badRequest(err.Error())
	}
	u, err := c.records.Usage(c.r.Context(), req)
	if err != nil {
		return nil, err
	}
	out := quotaJSON{Keys: u.Keys, Bytes: u.Bytes, Rates: []rateQuotaJSON{}}
	if !u.Frees.IsZero() {
		at := u.Frees.UTC()
		out.Frees = &at
	}
	for _, r := range u.Rates {
		out.Rates = append(out.Rates, rateQuotaJSON{PerSecond: r.PerSecond, Used: r.Used, Idle: seconds(r.Idle)})
	}
	return out, nil
}
