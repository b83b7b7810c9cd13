package attacks_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// TestNewKeysOfAnAddress tests that an address begins no more than its limit, that its duplicates
// are answered, and that others are served.
func TestNewKeysOfAnAddress(t *testing.T) {
	t.Parallel()
	x := newTarget(t, "trusted_proxies: [127.0.0.0/8]\nlimits: {new_by_address: {per_s: 0.001, burst: 20}}\n", members)
	from := func(address string) string { return "X-Forwarded-For: " + address + "\r\n" }
	count := map[string]int{}
	for i := range 200 {
		got := x.send(t, post("/orders", "tea", basic("alice", fmt.Sprint("wrong", i)), key(i), from("192.0.2.1")))
		count[got]++
	}
	assert.Equal(t, fmt.Sprint(count), "map[401:20 429 too-many-keys:180]", "what an attacker is told")
	assert.Equal(t, x.reached.Load(), int64(20), "requests that reached the service")
	for i := range 20 {
		who := []string{basic("alice", "right"), key(1000 + i), from("192.0.2.2")}
		assert.Equal(t, x.send(t, post("/orders", "tea", who...)), "201", "a customer")
		for range 5 {
			assert.Equal(t, x.send(t, post("/orders", "tea", who...)), "201", "a repeat does not count")
		}
	}
	got := x.send(t, post("/orders", "tea", basic("alice", "right"), key(2000), from("192.0.2.2")))
	assert.Equal(t, got, "429 too-many-keys", "a customer who has begun as many")
	assert.Equal(t, x.send(t, post("/orders", "tea", basic("alice", "right"), key(1000), from("192.0.2.2"))), "201", "and a repeat")
	for i := range 30 { // an IPv6 network counts as one address
		got = x.send(t, post("/orders", "tea", basic("bob", "right"), key(3000+i), from(fmt.Sprintf("2001:db8::%x", i+1))))
	}
	assert.True(t, strings.HasPrefix(got, "429"), "addresses of one network: %s", got)
}
