package shardstore

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/storeapi"
)

// TestFormats freezes version 1 of what is stored, and which shard is the home of a key: shards and
// processes of several builds share it.
func TestFormats(t *testing.T) {
	t.Parallel()
	maps := []*Map{
		{Number: 1, Names: []string{"eu-1", "eu-2"}, Lease: 15 * time.Second},
		{Number: 2, Names: []string{"eu-1", "eu-2", "eu-3"}, Was: []string{"eu-1", "eu-2"}, Closing: true, Lease: time.Minute, Floor: 1_774_746_000_000_000},
	}
	var got strings.Builder
	for _, m := range maps {
		text, err := mapKey(m.Number).MarshalText()
		assert.NoError(t, err, "key")
		a := m.answer()
		fmt.Fprintf(&got, "%s %s %s\n", text, a.Codec, a.Body)
	}
	for i := range 12 {
		key := storeapi.StoreKey{Namespace: "app", Layer: "http", Key: storeapi.Key{Tenant: "ann", Operation: "POST /orders", ID: fmt.Sprint("k/", i)}}
		home, next := maps[1].Home(key)
		fmt.Fprintf(&got, "home of k/%d: %s, then %s\n", i, home, next)
	}
	owner := storeapi.Owner{0xa0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 0xaf}
	fmt.Fprintf(&got, "owner of a copy: %x\n", copyOwner(owner, 1_774_746_000_000_001))
	const golden = "testdata/formats_v1.golden"
	assert.Golden(t, golden, got.String())
	text, err := os.ReadFile(golden)
	assert.NoError(t, err, "read")
	for i, line := range strings.Split(string(text), "\n")[:len(maps)] {
		_, body, _ := strings.Cut(line, " shardmap ")
		back, err := parseMap("eu-1", maps[i].Number, &storeapi.Answer{Codec: "shardmap", Body: []byte(body), Kept: true})
		assert.NoError(t, err, "line %d", i+1)
		assert.True(t, back.same(maps[i]), "line %d is %+v", i+1, back)
	}
	later := `{"number":1,"names":["eu-1"],"lease_ns":1,"more":{"of":"a later build"}}`
	_, err = parseMap("eu-1", 1, &storeapi.Answer{Codec: "shardmap", Body: []byte(later)})
	assert.NoError(t, err, "a further member")
}
