package kafkaidem_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/retrysafe/retrysafe/adapters/kafkaidem"
	"github.com/retrysafe/retrysafe/outbox"
)

// A topic, an outbox that publishes to it, and a consumer.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cluster := kfake.MustCluster(kfake.NumBrokers(1))
	defer cluster.Close()
	if err := run(ctx, cluster.ListenAddrs()); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	// Output:
	// confirmed
	// order-1 from orders: {"n":1}
}

func run(ctx context.Context, brokers []string) error {
	o := &kafkaidem.Options{Topic: "orders", Group: "stock"}
	topic := &kafkaidem.TopicOptions{Partitions: 3, Configs: map[string]string{"retention.ms": "604800000"}}
	if err := kafkaidem.Create(ctx, topic, o, kgo.SeedBrokers(brokers...)); err != nil {
		return err
	}

	publisher, err := kafkaidem.NewPublisher(kgo.SeedBrokers(brokers...)) // for outbox.NewRelay
	if err != nil {
		return err
	}
	defer publisher.Close()
	m := outbox.Message{ID: "order-1", Topic: "orders", Key: "customer-7", Payload: []byte(`{"n":1}`)}
	if err := publisher.Publish(ctx, []outbox.Outgoing{{Message: m}})[0]; err != nil {
		return err
	}
	fmt.Println("confirmed")

	source, err := kafkaidem.Open(ctx, o, kgo.SeedBrokers(brokers...)) // for mqidem.Consume
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
