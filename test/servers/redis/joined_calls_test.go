package redis_test

import (
	"bytes"
	"context"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/redisclient"
	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
	"github.com/retrysafe/retrysafe/test/servers/internal/teststores"
)

// TestRedisJoinedErrors: a key whose run fails has its own error, and those around it are claimed
// and completed in the same run.
func TestRedisJoinedErrors(t *testing.T) {
	t.Parallel()
	server := startKnowing(t)
	for adapter := range servers.RedisClients {
		p := servers.StartRedisProxy(t, server.Addr)
		s := teststores.Redis(t, p.Through(t, adapter), nil)
		reqs := claimsOf(t.Name()+adapter, 5)
		text, err := reqs[2].Key.MarshalText()
		assert.NoError(t, err, "the text of a key")
		servers.RedisDo(server.Addr, "RPUSH", "rs:"+string(text), "not a record")
		claims, err := s.AcquireBatch(t.Context(), reqs)
		assert.NoError(t, err, "claims")
		assert.True(t, p.Ran("acquire-joined") > 0, "%s: the claims are joined", adapter)
		assert.Equal(t, p.Ran("acquire"), 0, "%s: runs for one key", adapter)
		refused, alone := claims[2].Err, func() error { _, err := s.Acquire(t.Context(), reqs[2]); return err }()
		assert.Contains(t, refused.Error(), "WRONGTYPE", "%s: error of the third", adapter)
		assert.True(t, bytes.HasPrefix([]byte(alone.Error()), []byte(refused.Error())), "%s: %v is what one call says: %v", adapter, refused, alone)
		claims, reqs = append(claims[:2], claims[3:]...), append(reqs[:2], reqs[3:]...)
		wonAll(t, reqs, claims)
		for _, r := range claims {
			rec, err := s.Lookup(t.Context(), r.Value.Record.Key)
			assert.NoError(t, err, "look up")
			assert.Equal(t, rec.Fence, r.Value.Record.Fence, "%s: fence", adapter)
		}
	}
}

// TestRedisJoinedLarge: a run whose answers grow large ends early. The rest is run again, and no
// call is left without its answer.
func TestRedisJoinedLarge(t *testing.T) {
	t.Parallel()
	server := servers.StartRedis(t)
	for adapter, connect := range servers.RedisClients {
		s := teststores.Redis(t, connect(t, "redis://"+server.Addr), nil)
		reqs := claimsOf(t.Name()+adapter, 100)
		claims, err := s.AcquireBatch(t.Context(), reqs)
		assert.NoError(t, err, "claims")
		ends := endsOf(claims)
		for i := range ends {
			ends[i].Answer.Body = bytes.Repeat([]byte{byte(i)}, 50<<10)
		}
		stored, err := s.CompleteBatch(t.Context(), ends)
		assert.NoError(t, err, "ends")
		for i, e := range stored {
			assert.NoError(t, e.Err, "%s: end %d", adapter, i)
		}
		for i := range reqs {
			reqs[i].Owner = storeapi.Owner{9, 9, 9}
		}
		again, err := s.AcquireBatch(t.Context(), reqs)
		assert.NoError(t, err, "repeats")
		for i, g := range again {
			assert.NoError(t, g.Err, "%s: repeat %d", adapter, i)
			assert.Equal(t, g.Value.Status, storeapi.StatusFinished, "%s: status of repeat %d", adapter, i)
			assert.True(t, bytes.Equal(g.Value.Record.Answer.Body, ends[i].Answer.Body), "%s: answer of repeat %d", adapter, i)
		}
	}
}

// spread is a proxy that spreads keys over servers, and sends a run to the server of its first key.
type spread []redisclient.Client

func (s spread) Eval(ctx context.Context, call redisclient.Call) redisclient.Reply {
	return s[redisclient.Slot(call.Keys[0])%len(s)].Eval(ctx, call)
}

func (s spread) EvalMany(ctx context.Context, calls []redisclient.Call) []redisclient.Reply {
	return redisclient.SendMany(calls, false, func(calls []redisclient.Call, _ bool) []redisclient.Reply {
		var replies []redisclient.Reply
		for _, c := range calls {
			replies = append(replies, s.Eval(ctx, c))
		}
		return replies
	})
}

func (s spread) Joins() bool { return true }

// TestRedisJoinedNotThroughSpreading: behind a proxy that spreads keys over servers, no run has
// more than one key. Otherwise a key would be claimed where no other call looks for it.
func TestRedisJoinedNotThroughSpreading(t *testing.T) {
	t.Parallel()
	var proxy spread
	for range 2 {
		proxy = append(proxy, servers.RueidisTo(t, servers.StartRedis(t).Addr))
	}
	s := teststores.Redis(t, proxy, nil)
	reqs := claimsOf(t.Name(), 50)
	claims, err := s.AcquireBatch(t.Context(), reqs)
	assert.NoError(t, err, "claims")
	wonAll(t, reqs, claims)
	for i, c := range claims {
		rec, err := s.Lookup(t.Context(), reqs[i].Key)
		assert.NoError(t, err, "look up")
		assert.Equal(t, [2]any{rec.State, rec.Fence}, [2]any{retrysafe.StateInProgress, c.Value.Record.Fence}, "record %d", i)
	}
}

// TestRedisJoinedInSlots: in a cluster, keys of one slot are in one run.
func TestRedisJoinedInSlots(t *testing.T) {
	t.Parallel()
	cluster := servers.RedisKinds[0].Cluster.Get(t)
	for adapter, connect := range servers.RedisClients {
		client := connect(t, cluster.URL()).(redisclient.Pipeliner) //nolint:errcheck,forcetypeassert // both adapters have it
		count := redisclient.NewJoinable("count", "#!lua", "local n = 0\n", "n = n + 1\nreturn tostring(n)\n", "")
		var calls []redisclient.Call
		for _, key := range []string{"{a}1", "{b}1", "{a}2", "{c}1", "{a}3", "{b}2"} {
			calls = append(calls, redisclient.Call{Script: count, Keys: []string{key}})
		}
		var got []any
		for _, r := range client.EvalMany(t.Context(), calls) {
			assert.NoError(t, r.Err, "%s: call", adapter)
			got = append(got, r.Value)
		}
		assert.Equal(t, got, []any{"1", "1", "2", "1", "3", "2"}, "%s: places of the calls in their runs", adapter)
	}
}
