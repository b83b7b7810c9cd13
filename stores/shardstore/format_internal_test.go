package shardstore

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// TestFormats freezes what is stored, and which shard is the home of a key: shards and processes of
// several builds share it. Homes are those of v0.1.0.
func TestFormats(t *testing.T) {
	t.Parallel()
	names := []string{"eu-1", "eu-2", "eu-3"}
	var got strings.Builder
	for _, l := range []*shardList{{Names: names}, {Names: names, Home: "application"}} {
		req := l.writeRequest(&storeapi.Record{})
		text, err := req.Key.MarshalText()
		assert.NoError(t, err, "key")
		fmt.Fprintf(&got, "%s %v %s %s %s\n", text, req.Finish.State, req.Finish.Cause, req.Finish.Answer.Codec, req.Finish.Answer.Body)
	}
	homes := map[string]string{}
	for i := range 12 {
		key := storeapi.StoreKey{Namespace: "app", Layer: "http", Key: storeapi.Key{Tenant: "ann", Operation: "POST /orders", ID: fmt.Sprint("k/", i)}}
		homes[key.ID] = Pick(names[:2], key) + ", then " + Pick(names, key)
		fmt.Fprintf(&got, "home of %s: %s\n", key.ID, homes[key.ID])
	}
	assert.Golden(t, "testdata/formats_v2.golden", got.String())
	v1, err := os.ReadFile("testdata/formats_v1.golden")
	assert.NoError(t, err, "read")
	for id, home := range homes {
		assert.True(t, strings.Contains(string(v1), "home of "+id+": "+home+"\n"), "the home of %s was %s in v0.1.0", id, home)
	}
}

// TestLaterList: further members of a list are ignored, and a list that cannot be read is an error.
func TestLaterList(t *testing.T) {
	t.Parallel()
	for body, readable := range map[string]bool{
		`{"names":["a"],"more":{"of":"a later build"}}`: true, `{"names":["a"],"home":"by a later build"}`: false, `{}`: false, `{"names":["a","a"]}`: false, `x`: false,
	} {
		s, err := newStore(map[string]storeapi.Store{"a": memstore.New(nil)}, nil)
		assert.NoError(t, err, "store")
		req := s.ownList().writeRequest(&storeapi.Record{})
		req.NotAfter = req.NotAfter.AddDate(5000, 0, 0)
		req.Finish.Answer.Body = []byte(body)
		_, err = s.shards["a"].Acquire(t.Context(), req)
		assert.NoError(t, err, "write")
		assert.Equal(t, s.checkList(t.Context()) == nil, readable, "%s", body)
	}
}
