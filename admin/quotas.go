package admin

import (
	"context"
	"errors"
	"time"

	"github.com/retrysafe/retrysafe/stores/storeapi"
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

// UsageOfAny returns the usage of the one of several tenants of which something was counted, as
// [Records.AccountsOf] returns them. several reports whether that is more than one of them.
func (d *Records) UsageOfAny(ctx context.Context, namespace string, tenants []string) (u storeapi.Usage, several bool, err error) {
	found := 0
	for _, tenant := range tenants {
		req := storeapi.UsageRequest{Namespace: namespace, Tenant: tenant}
		if err := req.Validate(); err != nil {
			return u, false, err
		}
		one, err := d.Usage(ctx, req)
		if err != nil {
			return u, false, err
		}
		used := one.Keys != 0 || one.Bytes != 0 || len(one.Rates) > 0
		if used {
			found++
		}
		if used || u.Now.IsZero() {
			u = one
		}
	}
	return u, found > 1, nil
}

// tenantJSON names a caller of the service.
type tenantJSON struct {
	Namespace string `json:"namespace,omitempty" doc:"the service; absent: the server's own"`
	Tenant    string `json:"tenant" doc:"the caller, or empty; in the body, so that it stands in no log"`
	User      string `json:"user,omitempty" doc:"the caller as people know it, in place of tenant; see the list of records. A gateway that does not verify its callers counts by the whole Authorization header: credential:AUTHORIZATION"`
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

func findQuota(c *apiCall) (any, error) {
	var in tenantJSON
	if err := c.decodeBody(&in); err != nil {
		return nil, err
	}
	namespace, err := c.resolveNamespace(in.Namespace)
	if err != nil {
		return nil, err
	}
	accounts, err := c.tenantsOf(in.User, in.Tenant, namespace, c.records.AccountsOf)
	if err != nil {
		return nil, err
	}
	if accounts == nil {
		accounts = []string{in.Tenant}
	}
	u, several, err := c.records.UsageOfAny(c.r.Context(), namespace, accounts)
	switch {
	case errors.Is(err, storeapi.ErrInvalidKey):
		return nil, badRequest(err.Error())
	case err != nil:
		return nil, err
	case several:
		return nil, badRequest("several tenants with something counted have this name; name the caller by its kind, such as basic:NAME")
	}
	out := quotaJSON{Keys: u.Keys, Bytes: u.Bytes, Rates: []rateQuotaJSON{}}
	if !u.Frees.IsZero() {
		at := u.Frees.UTC()
		out.Frees = &at
	}
	for _, r := range u.Rates {
		out.Rates = append(out.Rates, rateQuotaJSON{PerSecond: r.PerSecond, Used: r.Used, Idle: toSeconds(r.Idle)})
	}
	return out, nil
}
