package rocketmqidem_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/adapters/rocketmqidem"
	"github.com/retrysafe/retrysafe/outbox"
)

// A topic, an outbox that publishes to it, and a consumer.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	r := sharedBroker(ended{})
	if err := run(ctx, r.NameServer, r.Broker); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	// Output:
	// confirmed
	// order-1 from shop: {"n":1}
}

func run(ctx context.Context, nameServer, broker string) error {
	servers := &rocketmqidem.Servers{NameServers: []string{nameServer}}
	o := &rocketmqidem.Options{Topic: "shop", Group: "stock-of-shop"}
	if err := rocketmqidem.Create(ctx, servers, &rocketmqidem.TopicOptions{Brokers: []string{broker}}, o); err != nil {
		return err
	}

	publisher, err := rocketmqidem.NewPublisher(servers, nil) // for outbox.NewRelay
	if err != nil {
		return err
	}
	defer publisher.Close()
	m := outbox.Message{ID: "order-1", Topic: "shop", Payload: []byte(`{"n":1}`)}
	if err := publisher.Publish(ctx, []outbox.Outgoing{{Message: m}})[0]; err != nil {
		return err
	}
	fmt.Println("confirmed")

	source, err := rocketmqidem.Open(ctx, servers, o) // for mqidem.Consume
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

// ended replaces a testing.T, which an example does not have.
type ended struct{ testing.TB }

func (ended) Helper()                           {}
func (ended) Name() string                      { return "Example" }
func (ended) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
func (ended) Fatal(args ...any)                 { panic(fmt.Sprint(args...)) }
