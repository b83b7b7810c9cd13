package redis_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/redisclient"
	"github.com/retrysafe/retrysafe/stores/redisstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
	"github.com/retrysafe/retrysafe/test/servers/internal/teststores"
)

// TestRedisUnfinishedSlotMoves: while a slot moves to another server, new keys of it are refused
// and not written, and lists stay right. When it has moved, everything works there.
func TestRedisUnfinishedSlotMoves(t *testing.T) {
	t.Parallel()
	cluster := servers.StartCluster(t).Steady()
	for adapter, connect := range servers.RedisClients {
		for _, n := range cluster.Nodes[:3] {
			assert.Equal(t, servers.RedisDo(n.Addr, "FLUSHALL"), "OK", "nothing of the other adapter")
		}
		s := teststores.Redis(t, connect(t, cluster.URL()), &redisstore.Options{Prefix: adapter + ":"})
		awaitIndexed(t, s)
		running, fresh := inOneSlot(t, adapter)
		claim, err := s.Acquire(t.Context(), running)
		assert.NoError(t, err, "claim")
		slot := redisclient.Slot(nameOf(t, adapter, running))
		from, to := cluster.Nodes[slot/5461], cluster.Nodes[(slot/5461+1)%3]
		ids := []string{servers.RedisDo(from.Addr, "CLUSTER", "MYID"), servers.RedisDo(to.Addr, "CLUSTER", "MYID")}
		assert.Equal(t, servers.RedisDo(to.Addr, "CLUSTER", "SETSLOT", slot, "IMPORTING", ids[0]), "OK", "importing")
		assert.Equal(t, servers.RedisDo(from.Addr, "CLUSTER", "SETSLOT", slot, "MIGRATING", ids[1]), "OK", "migrating")
		host, port, _ := strings.Cut(to.Addr, ":")
		for _, key := range []string{"", nameOf(t, adapter, running), indexOf(t, from, slot)} {
			if key != "" {
				assert.Equal(t, servers.RedisDo(from.Addr, "MIGRATE", host, port, key, 0, 5000), "OK", "move %s", key)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			_, err = s.Acquire(ctx, fresh)
			cancel()
			assert.True(t, err != nil, "a new key while its slot moves, after %q", key)
			rec, err := s.Lookup(t.Context(), fresh.Key)
			assert.NoError(t, err, "look up")
			assert.Equal(t, rec.State, storeapi.State(0), "the new key")
			page, err := s.List(t.Context(), storeapi.ListRequest{State: storeapi.StateInProgress})
			assert.NoError(t, err, "list after %q", key)
			assert.True(t, len(page.Records) == 1 && !page.Scans, "running work is listed after %q: %+v", key, page)
		}
		for _, n := range cluster.Nodes[:3] {
			assert.Equal(t, servers.RedisDo(n.Addr, "CLUSTER", "SETSLOT", slot, "NODE", ids[1]), "OK", "the slot's server")
		}
		_, err = s.Acquire(t.Context(), fresh)
		assert.NoError(t, err, "a new key when the slot has moved")
		rec := claim.Record
		_, err = s.Complete(t.Context(), storeapi.CompleteRequest{Key: rec.Key, Fence: rec.Fence, Owner: rec.Owner, State: storeapi.StateCompleted, Retention: time.Hour})
		assert.NoError(t, err, "complete")
		got, scans := listAll(t, s, storeapi.ListRequest{State: storeapi.StateInProgress})
		assert.True(t, len(got) == 1 && !scans, "what runs then: %v", got)
	}
}

// inOneSlot returns two claims whose records are in one slot.
func inOneSlot(t *testing.T, prefix string) (a, b storeapi.AcquireRequest) {
	t.Helper()
	seen := map[int]storeapi.AcquireRequest{}
	for i := 0; ; i++ {
		b = teststores.Request(fmt.Sprint(i))
		slot := redisclient.Slot(nameOf(t, prefix, b))
		if a, ok := seen[slot]; ok {
			return a, b
		}
		seen[slot] = b
	}
}

func nameOf(t *testing.T, prefix string, req storeapi.AcquireRequest) string {
	t.Helper()
	text, err := req.Key.MarshalText()
	assert.NoError(t, err, "the text of a key")
	return prefix + ":" + string(text)
}

// indexOf returns the key of the index in a slot.
func indexOf(t *testing.T, server *servers.Redis, slot int) string {
	t.Helper()
	for name := range strings.FieldsSeq(servers.RedisDo(server.Addr, "CLUSTER", "GETKEYSINSLOT", slot, 10)) {
		if name = strings.Trim(name, `[]"`); strings.Contains(name, ":unfinished:") {
			return name
		}
	}
	t.Fatal("the slot has no index")
	return ""
}
