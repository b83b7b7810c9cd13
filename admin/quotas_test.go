package admin_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/admin"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

func TestQuota(t *testing.T) {
	p := open(t)
	limiter := p.store.(storeapi.Limiter) //nolint:errcheck,forcetypeassert // memstore counts
	req := storeapi.ChargeRequest{
		Namespace: "shop", Tenant: secrets[0], Keys: 3, Bytes: 1000, For: time.Hour, Limits: storeapi.Limits{PerSecond: 0.01, Burst: 5},
	}
	if got, err := limiter.Charge(t.Context(), req); err != nil || !got.OK {
		t.Fatal(got, err)
	}
	find := func(tenant string) (out admin.Quota) {
		t.Helper()
		status, text := p.ask(t, "vera", "POST", "/quotas/find", jsonOf(admin.Tenant{Tenant: tenant}), nil)
		if status != 200 || strings.Contains(text, secrets[0]) {
			t.Fatalf("quota: %d %s", status, text)
		}
		if err := json.Unmarshal([]byte(text), &out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	got := find(secrets[0])
	if got.Keys != 3 || got.Bytes != 1000 || got.Frees == nil || len(got.Rates) != 1 || got.Rates[0].PerSecond != 0.01 || got.Rates[0].Used != 3 {
		t.Errorf("quota: %+v", got)
	}
	if got := find("another"); got.Keys != 0 || got.Frees != nil || len(got.Rates) != 0 {
		t.Errorf("quota of another tenant: %+v", got)
	}
	if status, text := p.ask(t, "vera", "POST", "/quotas/find", jsonOf(admin.Tenant{Tenant: strings.Repeat(secrets[0], 100)}), nil); status != 400 || strings.Contains(text, secrets[0]) {
		t.Errorf("a tenant that is too long: %d %.100s", status, text)
	}
}

// TestNoQuotas: a store without counts is no store that does not answer.
func TestNoQuotas(t *testing.T) {
	p := open(t)
	p.store = struct {
		storeapi.Store
		storeapi.Lister
	}{p.store, p.store.(storeapi.Lister)} //nolint:errcheck,forcetypeassert // memstore lists
	if !get[admin.Me](t, p, "vera", "/me").Quotas {
		t.Error("the page is not told that the store counts")
	}
	p.serve(t)
	if get[admin.Me](t, p, "vera", "/me").Quotas {
		t.Error("the page is told that the store counts")
	}
	if status, text := p.ask(t, "vera", "POST", "/quotas/find", `{"tenant":"x"}`, nil); status != 404 || !strings.Contains(text, "no-quotas") {
		t.Errorf("quota: %d %s", status, text)
	}
}
