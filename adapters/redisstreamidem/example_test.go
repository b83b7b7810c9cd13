package redisstreamidem_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/redis/rueidis"

	"github.com/retrysafe/retrysafe/adapters/redisstreamidem"
	"github.com/retrysafe/retrysafe/outbox"
	"github.com/retrysafe/retrysafe/redisclient"
)

// An outbox publishes to a stream, and a consumer reads it.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := run(ctx, connect()); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	// Output:
	// confirmed
	// order-1 from shop: {"n":1}
}

func run(ctx context.Context, c redisclient.Client) error {
	// c comes from adapters/rueidisclient or adapters/goredisclient
	publisher, err := redisstreamidem.NewPublisher(c, nil) // for outbox.NewRelay
	if err != nil {
		return err
	}
	m := outbox.Message{ID: "order-1", Topic: "shop", Payload: []byte(`{"n":1}`)}
	if err := publisher.Publish(ctx, []outbox.Outgoing{{Message: m}})[0]; err != nil {
		return err
	}
	fmt.Println("confirmed")

	// for mqidem.Consume
	source, err := redisstreamidem.Open(ctx, c, &redisstreamidem.Options{Stream: "shop", Group: "stock"})
	if err != nil {
		return err
	}
	defer source.Close()
	d, err := source.Receive(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("%s from %s: %s\n", d.Message().ID, d.Message().Source, d.Message().Body)
	return d.Ack(ctx)
}

// connect returns a client for the example, which has no test that closes it.
func connect() redisclient.Client {
	r, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{sharedRedis(ended{}).addr}, DisableRetry: true, DisableCache: true})
	if err != nil {
		panic(err)
	}
	return client{r}
}

// ended replaces a testing.T.
type ended struct{}

func (ended) Helper() {}

func (ended) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
