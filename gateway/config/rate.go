package config

import (
	"net/http"
	"net/netip"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/gateway/internal/clientaddr"
	"github.com/retrysafe/retrysafe/httpidem"
)

// rateOptions is [retrysafe.Rate] in the file.
type rateOptions struct {
	PerS  float64       `yaml:"per_s" default:"required" doc:"requests a second on average, 0.0001 to 100000; 0.1 is six in a minute"`
	Burst positiveCount `yaml:"burst" default:"per_s, rounded up" doc:"requests that may come at once, 1 to 100000"`
	By    rateBy        `yaml:"by" default:"tenant" doc:"who is counted as one: tenant, or address (that of the client; if proxies of trusted_proxies stand before the gateway, the last address outside of them)"`
}

type rateBy struct{ address bool }

func (v *rateBy) UnmarshalYAML(n ast.Node) (err error) {
	v.address, err = parseChoice(n, "tenant address", false, true)
	return err
}

type rateOrNone orNone[rateOptions]

func (v *rateOrNone) UnmarshalYAML(n ast.Node) error {
	if v.isSet = true; isNone(n) {
		return nil
	}
	v.value = new(rateOptions)
	if err := yaml.NodeToValue(n, v.value, yaml.Strict()); err != nil {
		return err
	}
	if err := v.value.rate().Validate(); err != nil {
		return errorAtNode(n, "%s", err)
	}
	return nil
}

func (c *rateOptions) rate() retrysafe.Rate {
	return retrysafe.Rate{PerSecond: c.PerS, Burst: c.Burst.n}
}

// configureGuard sets the rate of a guard. All requests of a route share one count, however their
// paths are written.
func (v rateOrNone) configureGuard(o *httpidem.Options, route string, trusted []netip.Prefix) {
	if v.value == nil {
		return
	}
	o.Limit.Rate, o.Limit.RateName = v.value.rate(), "by tenant: "+route
	if v.value.By.address {
		o.Limit.RateName = "by address: " + route
		o.Limit.RateBy = func(r *http.Request) (string, error) { return clientaddr.Of(r, trusted), nil }
	}
}

// addressRate is a rate for each address.
type addressRate struct{ rate retrysafe.Rate }

func (v *addressRate) UnmarshalYAML(n ast.Node) error {
	var c struct {
		PerS  float64       `yaml:"per_s"`
		Burst positiveCount `yaml:"burst"`
	}
	if isNone(n) {
		return nil
	}
	if err := yaml.NodeToValue(n, &c, yaml.Strict()); err != nil {
		return err
	}
	v.rate = retrysafe.Rate{PerSecond: c.PerS, Burst: c.Burst.n}
	if err := v.rate.Validate(); err != nil {
		return errorAtNode(n, "%s", err)
	}
	return nil
}
