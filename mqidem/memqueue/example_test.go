package memqueue_test

import (
	"context"
	"fmt"

	"github.com/retrysafe/retrysafe/mqidem/memqueue"
	"github.com/retrysafe/retrysafe/outbox"
)

// A message of a topic reaches each queue that is bound to it, and is gone once it is acked.
func ExampleNew() {
	ctx := context.Background()
	broker := memqueue.New()
	defer broker.Close()
	broker.Bind("orders", "stock", "mail")

	m := outbox.Message{ID: "order-7", Topic: "orders", Payload: []byte("tea")}
	fmt.Println("published:", broker.Publish(ctx, []outbox.Outgoing{{Message: m}})[0])

	source := broker.Open("stock")
	defer source.Close()
	d, err := source.Receive(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(d.Message().ID, string(d.Message().Body), d.Ack(ctx))
	for _, queue := range []string{"stock", "mail"} {
		waiting, dead := broker.Stats(queue)
		fmt.Println(queue, waiting, dead)
	}
	// Output:
	// published: <nil>
	// order-7 tea <nil>
	// stock 0 0
	// mail 1 0
}
