package natsidem_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/retrysafe/retrysafe/adapters/natsidem"
	"github.com/retrysafe/retrysafe/outbox"
)

// A stream, an outbox that publishes to it, and a consumer.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := run(ctx, exampleServer()); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	// Output:
	// confirmed
	// order-1 from shop.placed: {"n":1}
}

func run(ctx context.Context, addr string) error {
	nc, err := nats.Connect(addr, nats.MaxReconnects(-1)) // never stops reconnecting
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	o := &natsidem.Options{Stream: "shop", Consumer: "stock"}
	if err := natsidem.Create(ctx, js, jetstream.StreamConfig{Subjects: []string{"shop.*"}, MaxAge: 72 * time.Hour}, o); err != nil {
		return err
	}

	publisher, err := natsidem.NewPublisher(js, nil) // for outbox.NewRelay
	if err != nil {
		return err
	}
	defer publisher.Close()
	m := outbox.Message{ID: "order-1", Topic: "shop.placed", Payload: []byte(`{"n":1}`)}
	if err := publisher.Publish(ctx, []outbox.Outgoing{{Message: m}})[0]; err != nil {
		return err
	}
	fmt.Println("confirmed")

	source, err := natsidem.Open(ctx, js, o) // for mqidem.Consume
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

func exampleServer() string { return "nats://" + sharedServer(ended{}).addr() }

// ended replaces a testing.T.
type ended struct{}

func (ended) Helper() {}

func (ended) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
