package mcpidem_test

import (
	"context"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/adapters/mcpidem"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

type payment struct {
	Amount int `json:"amount"`
}

// An agent that is killed, and starts again in a new session, pays once.
func Example() {
	ctx := context.Background()
	engine := retrysafe.New(memstore.New(nil), nil)
	paid := 0
	server := mcp.NewServer(&mcp.Implementation{Name: "shop"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "pay"}, func(_ context.Context, _ *mcp.CallToolRequest, p payment) (*mcp.CallToolResult, any, error) {
		paid++
		return nil, fmt.Sprintf("payment %d of %d EUR", paid, p.Amount), nil
	})
	server.AddReceivingMiddleware(mcpidem.Server(engine, &mcpidem.Options{Tenant: mcpidem.Global}))

	client := mcp.NewClient(&mcp.Implementation{Name: "agent"}, nil)
	client.AddSendingMiddleware(mcpidem.Client(nil))
	for range 2 {
		there, here := mcp.NewInMemoryTransports()
		if _, err := server.Connect(ctx, there, nil); err != nil {
			fmt.Println(err)
			return
		}
		session, err := client.Connect(ctx, here, nil)
		if err != nil {
			fmt.Println(err)
			return
		}
		keyed := httpidem.ContextWithKey(ctx, "order-7")
		res, err := session.CallTool(keyed, &mcp.CallToolParams{Name: "pay", Arguments: payment{Amount: 10}})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%v, replayed: %t\n", res.StructuredContent, mcpidem.Replayed(res))
		_ = session.Close()
	}
	// Output:
	// payment 1 of 10 EUR, replayed: false
	// payment 1 of 10 EUR, replayed: true
}
