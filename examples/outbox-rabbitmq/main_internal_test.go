package main

import (
	"testing"

	"github.com/retrysafe/retrysafe/adapters/amqpidem"
	"github.com/retrysafe/retrysafe/examples/internal/exampletest"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/servertest"
	"github.com/retrysafe/retrysafe/mqidem"
	"github.com/retrysafe/retrysafe/outbox"
)

func TestMain(m *testing.M) { exampletest.Main(m, main) }

func orderRequest(item, key string) []string {
	return []string{
		"POST", "/orders", "item=" + item, "Authorization: Basic YW5uOg==",
		"Content-Type: application/x-www-form-urlencoded", "Idempotency-Key: " + key,
	}
}

// awaitCounts waits until the program reports these counts.
func awaitCounts(t *testing.T, p *exampletest.Program, want string) {
	t.Helper()
	exampletest.Await(t, want, func() bool { return p.Do(t, "GET", "/counts", "").Body == want })
}

// TestOnce: copies of an order, copies of its message, and a kill while the order is packed lead to
// one order and one parcel.
func TestOnce(t *testing.T) {
	t.Parallel()
	rabbit := servertest.StartRabbitMQ(t)
	url := rabbit.VHost(t)
	p := exampletest.Start(t, "-rabbitmq", url)
	r := orderRequest("tea", "one")
	answers := p.AtOnce(t, 20, r[0], r[1], r[2], r[3:]...)
	for _, a := range answers {
		assert.True(t, a.Status == 201 && a.Body == answers[0].Body, "the same answer for all: %v", a)
	}
	awaitCounts(t, p, "orders: 1, parcels: 1\n")
	other := orderRequest("coffee", "one")
	assert.Equal(t, p.Do(t, other[0], other[1], other[2], other[3:]...).Status, 422, "another order with the same key")
	copyOf(t, url, answers[0].Body[len("order "):len(answers[0].Body)-1])
	p.AwaitOutput(t, "message: "+mqidem.OutcomeDuplicate)
	awaitCounts(t, p, "orders: 1, parcels: 1\n")
	p.Kill()

	p.Args("-pause", "10m")
	p.Restart(t)
	r = orderRequest("tea", "two")
	assert.Equal(t, p.Do(t, r[0], r[1], r[2], r[3:]...).Status, 201, "the second order")
	p.AwaitOutput(t, "kill me")
	p.Kill()
	p.Args()
	p.Restart(t)
	awaitCounts(t, p, "orders: 2, parcels: 2\n")
	assert.Equal(t, p.Retry(t, r[0], r[1], r[2], r[3:]...).Status, 201, "a retry of the second order")
	awaitCounts(t, p, "orders: 2, parcels: 2\n")

	rabbit.Kill()
	r = orderRequest("tea", "three")
	assert.Equal(t, p.Do(t, r[0], r[1], r[2], r[3:]...).Status, 201, "an order without RabbitMQ")
	rabbit.Restart(t)
	awaitCounts(t, p, "orders: 3, parcels: 3\n")
	p.Stop(t)
}

// copyOf publishes a message again, as a relay does that has died before it knew that it was
// confirmed.
func copyOf(t *testing.T, url, id string) {
	t.Helper()
	publisher, err := amqpidem.NewPublisher(t.Context(), url, nil)
	assert.NoError(t, err, "publisher")
	defer publisher.Close()
	for _, err := range publisher.Publish(t.Context(), []outbox.Outgoing{{Message: outbox.Message{ID: id, Topic: queue, Payload: []byte("{}")}}}) {
		assert.NoError(t, err, "publish")
	}
}
