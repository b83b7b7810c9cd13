package mcpidem_test

import (
	"context"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/adapters/mcpidem"
	"github.com/retrysafe/retrysafe/httpidem/fingerprint"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// TestArgument: the key is an argument of the tool, and the other arguments are compared.
func TestArgument(t *testing.T) {
	t.Parallel()
	for _, version := range versions {
		d := newDesk(t, nil, &mcpidem.Options{Argument: "idempotency_key", Key: mcpidem.Required}, nil)
		s := d.join(version, nil)
		assert.Equal(t, says(do(t, s, "", `{"idempotency_key":"k1","amount":10}`)), "run 1", "the first")
		res := do(t, s, "", `{"amount":10, "idempotency_key":"k1"}`)
		assert.True(t, says(res) == "run 1" && mcpidem.Replayed(res), "a duplicate: %s", says(res))
		refused(t, do(t, s, "", `{"idempotency_key":"k1","amount":999}`), "PAYLOAD_MISMATCH", false)
		assert.Equal(t, says(do(t, s, "", `{"idempotency_key":"k2","amount":10}`)), "run 2", "another key")
		assert.Equal(t, says(do(t, s, "meta", `{"idempotency_key":"k1","amount":10}`)), "run 3", "a key in _meta comes first")
		assert.True(t, mcpidem.Replayed(do(t, s, "meta", `{"idempotency_key":"k3","amount":10}`)), "the argument is not compared")
		missing := do(t, s, "", `{"idempotency_key":null,"amount":10}`)
		refused(t, missing, "KEY_MISSING", false)
		assert.Contains(t, says(missing), `argument "idempotency_key"`, "where the key belongs")
		for _, malformed := range []string{`""`, `7`, `{"a":1}`, `"\u00e4"`} {
			refused(t, do(t, s, "", `{"idempotency_key":`+malformed+`}`), "KEY_MALFORMED", false)
		}
		refused(t, do(t, s, "", `{"idempotency_key":"k1","idempotency_key":"k2"}`), "REQUEST_UNREADABLE", false)
		refused(t, do(t, s, "", `{"order":{"idempotency_key":"k1"}}`), "KEY_MISSING", false)
		assert.Equal(t, d.runs.Load(), int64(3), "runs")
	}
}

// TestArgumentOrDerived: without the argument, a key is derived of the others.
func TestArgumentOrDerived(t *testing.T) {
	t.Parallel()
	d := newDesk(t, nil, &mcpidem.Options{Argument: "key", Key: mcpidem.Derived, Rule: fingerprint.Rule{Ignore: []string{"at"}}}, nil)
	s := d.join("", nil)
	do(t, s, "", `{"key":"k","amount":1,"at":1}`)
	assert.True(t, mcpidem.Replayed(do(t, s, "", `{"key":"k","amount":1,"at":2}`)), "by its key")
	assert.Equal(t, says(do(t, s, "", `{"amount":1}`)), "run 2", "without a key")
	assert.True(t, mcpidem.Replayed(do(t, s, "", `{"amount":1,"key":null}`)), "by its other arguments")
}

func TestArgumentName(t *testing.T) {
	t.Parallel()
	o := &mcpidem.Options{Tenant: mcpidem.Global, Argument: "$.order.key"}
	err := o.Validate(retrysafe.Policy{})
	assert.True(t, err != nil, "the name of an argument is no path")
	assert.Contains(t, err.Error(), "idempotency_key", "an example")
}

func ExampleOptions_argument() {
	e := retrysafe.New(memstore.New(nil), nil)
	server := mcp.NewServer(&mcp.Implementation{Name: "payments"}, nil)
	type payment struct {
		Key    string `json:"idempotency_key" jsonschema:"a random key for each payment, and the same one in each retry"`
		Amount int    `json:"amount"`
	}
	mcp.AddTool(server, &mcp.Tool{Name: "pay"}, func(context.Context, *mcp.CallToolRequest, payment) (*mcp.CallToolResult, any, error) {
		return nil, "paid", nil
	})
	server.AddReceivingMiddleware(mcpidem.Server(e, &mcpidem.Options{
		Tenant: mcpidem.Global, Argument: "idempotency_key", Key: mcpidem.Required,
	}))
}
