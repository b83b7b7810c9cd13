package main

import (
	"testing"

	"github.com/retrysafe/retrysafe/examples/internal/exampletest"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/servertest"
)

func TestMain(m *testing.M) { exampletest.Main(m, main) }

const ann = "Authorization: Basic YW5uOg=="

func orderRequest(key string) []string {
	return []string{"POST", "/orders", `{"item":"tea"}`, ann, "Content-Type: application/json", "Idempotency-Key: " + key}
}

func countOrders(t *testing.T, p *exampletest.Program) string {
	t.Helper()
	return p.Do(t, "GET", "/orders", "").Body
}

// TestOnce: copies of a request place one order, and so does a request whose process is killed
// after the row was written.
func TestOnce(t *testing.T) {
	t.Parallel()
	redis, mysql := servertest.StartRedis(t), servertest.StartMySQL(t)
	flags := []string{"-redis", "redis://" + redis.Addr, "-mysql", mysql.DSN()}
	p := exampletest.Start(t, flags...)
	r := orderRequest("order-1")
	for _, a := range p.AtOnce(t, 20, r[0], r[1], r[2], r[3:]...) {
		assert.Equal(t, a.Status, 201, "status; %s", a.Body)
		assert.Equal(t, a.Body, `{"id":1,"customer":"ann","item":"tea"}`, "answer")
	}
	assert.Equal(t, countOrders(t, p), `{"orders":1}`, "after 20 copies")
	assert.Equal(t, p.Do(t, "POST", "/orders", `{"item":"coffee"}`, r[3:]...).Status, 422, "another order with the same key")
	assert.Equal(t, p.Do(t, "POST", "/orders", r[2], ann).Status, 400, "an order without a key")
	p.Stop(t)

	slow := exampletest.Start(t, append(flags, "-pause", "10m")...)
	r = orderRequest("order-2")
	gone := make(chan error, 1)
	go func() {
		_, err := slow.Send(t.Context(), r[0], r[1], r[2], r[3:]...)
		gone <- err
	}()
	exampletest.Await(t, "the row of the second order", func() bool { return countOrders(t, slow) == `{"orders":2}` })
	slow.Kill()
	assert.True(t, <-gone != nil, "the client of the process that was killed gets no answer")

	p.Restart(t)
	first := p.Retry(t, r[0], r[1], r[2], r[3:]...)
	assert.Equal(t, first.Status, 201, "status of the retry; %s", first.Body)
	again := p.Retry(t, r[0], r[1], r[2], r[3:]...)
	assert.True(t, again.Replayed() && again.Body == first.Body, "the answer is replayed: %v", again)
	assert.Equal(t, countOrders(t, p), `{"orders":2}`, "after the kill and the retries")

	redis.Kill()
	assert.Equal(t, p.Do(t, r[0], r[1], r[2], r[3:]...).Status, 503, "without Redis")
	redis.Restart(t) // it has lost every key
	lost := p.Retry(t, r[0], r[1], r[2], r[3:]...)
	assert.True(t, lost.Status == 201 && !lost.Replayed() && lost.Body == first.Body, "the row is found: %v", lost)
	assert.Equal(t, countOrders(t, p), `{"orders":2}`, "after Redis lost its keys")
}
