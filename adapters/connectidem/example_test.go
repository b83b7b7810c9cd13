package connectidem_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/adapters/connectidem"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/rpcidem"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// An order that is sent twice with one key is placed once. The handler and the client stand for
// generated code.
func Example() {
	engine := retrysafe.New(memstore.New(nil), nil)
	placed := 0
	const procedure = "/shop.v1.Orders/Place"
	server := httptest.NewServer(connect.NewUnaryHandler(procedure,
		func(_ context.Context, req *connect.Request[wrapperspb.StringValue]) (*connect.Response[wrapperspb.StringValue], error) {
			placed++
			return connect.NewResponse(wrapperspb.String(fmt.Sprintf("order %d: %s", placed, req.Msg.GetValue()))), nil
		}, connect.WithInterceptors(connectidem.Server(engine, &rpcidem.Options{Tenant: rpcidem.Global}))))
	defer server.Close()
	client := connect.NewClient[wrapperspb.StringValue, wrapperspb.StringValue](http.DefaultClient, server.URL+procedure,
		connect.WithInterceptors(connectidem.Client(nil)))

	ctx := httpidem.ContextWithKey(context.Background(), "cart-7")
	for range 2 {
		resp, err := client.CallUnary(ctx, connect.NewRequest(wrapperspb.String("tea")))
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%s, replayed: %t\n", resp.Msg.GetValue(), resp.Header().Get("Idempotency-Replayed") == "true")
	}
	// Output:
	// order 1: tea, replayed: false
	// order 1: tea, replayed: true
}
