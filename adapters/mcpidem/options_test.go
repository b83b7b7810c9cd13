package mcpidem_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/adapters/mcpidem"
	"github.com/retrysafe/retrysafe/httpidem/fingerprint"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// anonymous is a Tenant that knows no caller.
func anonymous(context.Context, *mcp.CallToolRequest) (string, error) { return "", nil }

// TestOptions: all errors of invalid options are reported at once, and Server panics with them.
func TestOptions(t *testing.T) {
	t.Parallel()
	good := mcpidem.Options{Tenant: mcpidem.Global}
	assert.NoError(t, good.Validate(retrysafe.Policy{}), "good options")
	for want, change := range map[string]func(*mcpidem.Options){
		"Tenant is not set":     func(o *mcpidem.Options) { o.Tenant = nil },
		"Key is 9":              func(o *mcpidem.Options) { o.Key = 9 },
		"Window is 1s":          func(o *mcpidem.Options) { o.Window = time.Second },
		"Window is -1s":         func(o *mcpidem.Options) { o.Key, o.Window = mcpidem.Derived, -time.Second },
		"Window is 1ms":         func(o *mcpidem.Options) { o.Key, o.Window = mcpidem.Derived, time.Millisecond },
		"SkipIdempotent is set": func(o *mcpidem.Options) { o.SkipIdempotent, o.Tools = true, func(*mcp.Tool) bool { return true } },
		"Rule: ":                func(o *mcpidem.Options) { o.Rule = fingerprint.Rule{Ignore: []string{""}} },
		"MinKey is -1":          func(o *mcpidem.Options) { o.MinKey = -1 },
		"Rate: ":                func(o *mcpidem.Options) { o.Rate.PerSecond = -1 },
		"Duplicate is Succeed":  func(o *mcpidem.Options) { o.Policy.Duplicate = retrysafe.Succeed },
		"Lease":                 func(o *mcpidem.Options) { o.Policy.Lease = -1 },
	} {
		o := good
		change(&o)
		err := o.Validate(retrysafe.Policy{})
		assert.True(t, err != nil && strings.Contains(err.Error(), want), "%s: %v", want, err)
		o.MinKey, o.Tenant = -1, nil
		err = o.Validate(retrysafe.Policy{})
		assert.True(t, strings.Contains(err.Error(), "Tenant") && strings.Contains(err.Error(), "MinKey"), "all at once: %v", err)
		panics(t, func() { mcpidem.Server(engine(t, memstore.New(nil)), &o) })
	}
	panics(t, func() { mcpidem.Server(nil, &good) })
	panics(t, func() { mcpidem.Server(engine(t, memstore.New(nil)), nil) })
}

func panics(t *testing.T, f func()) {
	t.Helper()
	defer func() { assert.True(t, recover() != nil, "it panics") }()
	f()
}
