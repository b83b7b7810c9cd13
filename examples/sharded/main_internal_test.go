package main

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/examples/internal/exampletest"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/servertest"
)

func TestMain(m *testing.M) { exampletest.Main(m, main) }

func orderRequest(item, key string) []string {
	return []string{
		"POST", "/orders", "item=" + item, "Authorization: Basic YW5uOg==",
		"Content-Type: application/x-www-form-urlencoded", "Idempotency-Key: " + key,
	}
}

var counted = regexp.MustCompile(`^eu-1: (\d+)\neu-2: (\d+)\n$`)

// shardCounts returns how many orders each shard has.
func shardCounts(t *testing.T, p *exampletest.Program) (one, two int) {
	t.Helper()
	text := p.Do(t, "GET", "/counts", "").Body
	found := counted.FindStringSubmatch(text)
	assert.Equal(t, len(found), 3, "counts in %q", text)
	one, _ = strconv.Atoi(found[1])
	two, _ = strconv.Atoi(found[2])
	return one, two
}

// TestOnce: each key places one order on one shard, also if the process is killed before the
// commit. The keys of a shard that is away are refused, and those of the other are served.
func TestOnce(t *testing.T) {
	t.Parallel()
	first, second := servertest.StartPostgres(t), servertest.StartPostgres(t)
	p := exampletest.Start(t, "-shards", "eu-1="+first.URL+" eu-2="+second.URL)
	keyOf := map[string]string{} // a key of each shard
	for i := range 20 {
		key := fmt.Sprint("order-", i)
		r := orderRequest("tea", key)
		all := p.AtOnce(t, 3, r[0], r[1], r[2], r[3:]...)
		for _, a := range all {
			assert.True(t, a.Status == 201 && a.Body == all[0].Body, "one answer for all copies: %v", all)
		}
		path := strings.TrimSpace(all[0].Body)
		keyOf[strings.Split(path, "/")[2]] = key
		assert.Equal(t, p.Do(t, "GET", path, "").Body, "tea\n", "the order at %s", path)
	}
	one, two := shardCounts(t, p)
	assert.True(t, one > 0 && two > 0 && one+two == 20, "20 orders on two shards: %d and %d", one, two)
	r := orderRequest("coffee", keyOf["eu-1"])
	assert.Equal(t, p.Do(t, r[0], r[1], r[2], r[3:]...).Status, 422, "another order with the same key")
	p.Kill()

	p.Args("-pause", "10m")
	p.Restart(t)
	r = orderRequest("milk", "killed")
	gone := make(chan error, 1)
	go func() {
		_, err := p.Send(t.Context(), r[0], r[1], r[2], r[3:]...)
		gone <- err
	}()
	p.AwaitOutput(t, "kill me")
	p.Kill()
	assert.True(t, <-gone != nil, "the client of the process that was killed gets no answer")
	p.Args()
	p.Restart(t)
	for range 2 {
		assert.Equal(t, p.Retry(t, r[0], r[1], r[2], r[3:]...).Status, 201, "the order again")
	}
	one, two = shardCounts(t, p)
	assert.Equal(t, one+two, 21, "orders after the kill")

	second.Kill()
	r = orderRequest("tea", keyOf["eu-2"])
	assert.Equal(t, p.Do(t, r[0], r[1], r[2], r[3:]...).Status, 503, "a key of the shard that is away")
	r = orderRequest("tea", keyOf["eu-1"])
	assert.Equal(t, p.Do(t, r[0], r[1], r[2], r[3:]...).Status, 201, "a key of the other shard")
}
