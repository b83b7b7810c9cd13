package grpcidem_test

import (
	"context"
	"fmt"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/adapters/grpcidem"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/rpcidem"
	"github.com/retrysafe/retrysafe/rpcidem/rpcidemtest"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// An order that is sent twice with one key is placed once. The service stands for generated code.
func Example() {
	engine := retrysafe.New(memstore.New(nil), nil)
	placed := 0
	server := grpc.NewServer(grpc.ChainUnaryInterceptor(grpcidem.UnaryServer(engine, &rpcidem.Options{Tenant: rpcidem.Global})))
	server.RegisterService(suite(func(_ context.Context, what string) (string, *rpcidemtest.Error) {
		placed++
		return fmt.Sprintf("order %d: %s", placed, what), nil
	}), new(any))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithChainUnaryInterceptor(grpcidem.UnaryClient(nil)))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = conn.Close() }()

	ctx := httpidem.ContextWithKey(context.Background(), "cart-7")
	for range 2 {
		var head metadata.MD
		reply := new(wrapperspb.StringValue)
		if err := conn.Invoke(ctx, rpcidemtest.Path, wrapperspb.String("tea"), reply, grpc.Header(&head)); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%s, replayed: %t\n", reply.GetValue(), len(head.Get("idempotency-replayed")) == 1)
	}
	// Output:
	// order 1: tea, replayed: false
	// order 1: tea, replayed: true
}
