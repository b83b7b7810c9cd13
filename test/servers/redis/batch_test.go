package redis_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/redisstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
	"github.com/retrysafe/retrysafe/test/servers/internal/teststores"
	"github.com/retrysafe/retrysafe/test/servers/internal/waits"
)

// claimsOf returns claims of n new keys, each by a different owner.
func claimsOf(name string, n int) []storeapi.AcquireRequest {
	reqs := make([]storeapi.AcquireRequest, n)
	for i := range reqs {
		reqs[i] = storeapi.AcquireRequest{
			Key: teststores.OrderStoreKey(fmt.Sprint(name, " ", i)), Owner: storeapi.Owner{byte(i), byte(i >> 8), 1},
			Lease: time.Minute, Retention: time.Hour, OnDoubt: retrysafe.Refuse,
		}
	}
	return reqs
}

func endsOf(claims []storeapi.BatchResult[storeapi.Acquired]) []storeapi.CompleteRequest {
	reqs := make([]storeapi.CompleteRequest, len(claims))
	for i, c := range claims {
		r := c.Value.Record
		reqs[i] = storeapi.CompleteRequest{
			Key: r.Key, Owner: r.Owner, Fence: r.Fence, State: retrysafe.StateCompleted,
			Answer: retrysafe.Answer{Codec: "raw", Body: []byte("answer of " + r.Key.ID), Kept: true},
		}
	}
	return reqs
}

// wonAll checks that every claim got its first attempt.
func wonAll(t *testing.T, reqs []storeapi.AcquireRequest, got []storeapi.BatchResult[storeapi.Acquired]) {
	t.Helper()
	assert.Equal(t, len(got), len(reqs), "answers")
	for i, g := range got {
		assert.NoError(t, g.Err, "claim %d", i)
		assert.Equal(t, g.Value.Status, storeapi.StatusAcquired, "status of claim %d", i)
		assert.Equal(t, fmt.Sprint(g.Value.Record.Attempt, g.Value.Record.Key.ID), fmt.Sprint(1, reqs[i].Key.ID), "record of claim %d", i)
	}
}

// replayedAll checks that each key's answer is in its place.
func replayedAll(t *testing.T, s *redisstore.Store, reqs []storeapi.AcquireRequest) {
	t.Helper()
	for i := range reqs {
		reqs[i].Owner = storeapi.Owner{9, 9, 9}
	}
	got, err := s.AcquireBatch(t.Context(), reqs)
	assert.NoError(t, err, "a batch of repeats")
	for i, g := range got {
		assert.NoError(t, g.Err, "repeat %d", i)
		assert.Equal(t, g.Value.Status, storeapi.StatusFinished, "status of repeat %d", i)
		assert.Equal(t, string(g.Value.Record.Answer.Body), "answer of "+reqs[i].Key.ID, "answer to repeat %d", i)
	}
}

// TestRedisBatch: on one server and on a cluster whose nodes share the keys, with scripts that a
// node does not know at first.
func TestRedisBatch(t *testing.T) {
	t.Parallel()
	servers.EachRedis(t, func(t *testing.T, k *servers.RedisKind) {
		t.Helper()
		cluster := k.Cluster.Get(t)
		for where, url := range map[string]string{"one server": "redis://" + k.Start(t).Addr, "a cluster": cluster.URL()} {
			for adapter, connect := range servers.RedisClients {
				s := teststores.Redis(t, connect(t, url), &redisstore.Options{Prefix: servers.RedisPrefix()})
				reqs := claimsOf(adapter, 300)
				for _, n := range cluster.Nodes {
					servers.RedisDo(n.Addr, "SCRIPT", "FLUSH")
				}
				claims, err := s.AcquireBatch(t.Context(), reqs)
				assert.NoError(t, err, "claims on %s through %s", where, adapter)
				wonAll(t, reqs, claims)
				extends := make([]storeapi.ExtendRequest, len(claims))
				for i, c := range claims {
					extends[i] = storeapi.ExtendRequest{Key: c.Value.Record.Key, Owner: c.Value.Record.Owner, Fence: c.Value.Record.Fence, Lease: time.Hour}
				}
				extends[7].Fence++
				errs, err := s.ExtendBatch(t.Context(), extends)
				assert.NoError(t, err, "extends")
				for i, err := range errs {
					assert.Equal(t, errors.Is(err, retrysafe.ErrLeaseLost), i == 7, "extend %d: %v", i, err)
				}
				ends, err := s.CompleteBatch(t.Context(), endsOf(claims))
				assert.NoError(t, err, "ends")
				for i, e := range ends {
					assert.NoError(t, e.Err, "end %d", i)
					assert.Equal(t, string(e.Value.Answer.Body), "answer of "+reqs[i].Key.ID, "what end %d keeps", i)
				}
				replayedAll(t, s, reqs)
			}
		}
	})
}

// TestRedisBatchNodeHangs: one node of a cluster accepts calls and answers none. When it continues,
// the same batch again gives the first attempt of each key, on whichever node.
func TestRedisBatchNodeHangs(t *testing.T) {
	t.Parallel()
	cluster := servers.StartCluster(t).Steady()
	for adapter, connect := range servers.RedisClients {
		s := teststores.Redis(t, connect(t, cluster.URL()), nil)
		// All nodes must know the script.
		_, err := s.AcquireBatch(t.Context(), claimsOf("before "+adapter, 30))
		assert.NoError(t, err, "a batch before")
		reqs := claimsOf(adapter, 300)
		resume := cluster.Nodes[1].Stall()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		first, err := s.AcquireBatch(ctx, reqs)
		cancel()
		resume()
		assert.NoError(t, err, "a batch, of which some calls are not answered")
		unknown := 0
		for _, c := range first {
			if c.Err != nil {
				unknown++
			}
		}
		t.Logf("%s: %d of %d calls without an answer", adapter, unknown, len(reqs))
		assert.True(t, unknown > 0, "calls without an answer")
		waits.Eventually(t, "the node goes on", func() bool {
			again, err := s.AcquireBatch(t.Context(), reqs)
			assert.NoError(t, err, "the same batch again")
			for _, c := range again {
				if c.Err != nil {
					return false
				}
			}
			wonAll(t, reqs, again)
			return true
		})
	}
}

// TestRedisBatchReplyIsLost: the connection breaks in the middle of a batch, at the second of its
// three runs. Earlier answers are valid, the outcome of the rest is unknown, and the same batch
// again gives the same attempts and the same answers.
func TestRedisBatchReplyIsLost(t *testing.T) {
	t.Parallel()
	server := startKnowing(t)
	for adapter := range servers.RedisClients {
		for _, loss := range servers.Losses {
			t.Run(adapter+", "+loss.Name, func(t *testing.T) {
				t.Parallel()
				p := servers.StartRedisProxy(t, server.Addr)
				s := teststores.Redis(t, p.Through(t, adapter), nil)
				lose := func(script string) {
					p.SetHook(func(name string, n int) servers.Cut {
						if name == script && n == 2 {
							return loss.Cut
						}
						return 0
					})
				}
				reqs := claimsOf(t.Name(), 300)
				lose("acquire-joined")
				first, err := s.AcquireBatch(t.Context(), reqs)
				assert.NoError(t, err, "claims")
				assert.True(t, p.Ran("acquire-joined") >= 2, "the fault has struck: %d", p.Ran("acquire-joined"))
				p.SetHook(nil)
				again, err := s.AcquireBatch(t.Context(), reqs)
				assert.NoError(t, err, "claims, again")
				wonAll(t, reqs, again)
				unknown := 0
				for i, c := range first {
					if c.Err != nil { // this client does not repeat it itself
						unknown++
						continue
					}
					assert.Equal(t, c.Value.Record.Fence, again[i].Value.Record.Fence, "fence of claim %d", i)
				}
				lose("complete-joined")
				ends, err := s.CompleteBatch(t.Context(), endsOf(again))
				assert.NoError(t, err, "ends")
				p.SetHook(nil)
				for i, e := range ends {
					if e.Err != nil {
						unknown++
						continue
					}
					assert.Equal(t, e.Value.State, retrysafe.StateCompleted, "state after end %d", i)
				}
				t.Logf("calls without an answer: %d", unknown)
				ends, err = s.CompleteBatch(t.Context(), endsOf(again))
				assert.NoError(t, err, "ends, again")
				for i, e := range ends {
					assert.NoError(t, e.Err, "end %d, again", i)
				}
				replayedAll(t, s, reqs)
			})
		}
	}
}

// TestRedisBatchIsOneTrip: all runs are sent before any is answered, and none is for one key.
func TestRedisBatchIsOneTrip(t *testing.T) {
	t.Parallel()
	server := startKnowing(t)
	for adapter := range servers.RedisClients {
		t.Run(adapter, func(t *testing.T) {
			t.Parallel()
			p := servers.StartRedisProxy(t, server.Addr)
			s := teststores.Redis(t, p.Through(t, adapter), nil)
			p.SetHook(func(name string, n int) servers.Cut {
				if name == "acquire-joined" && n == 1 {
					return servers.HoldReply
				}
				return 0
			})
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan []storeapi.BatchResult[storeapi.Acquired])
			go func() {
				claims, _ := s.AcquireBatch(ctx, claimsOf(t.Name(), 300))
				ended <- claims
			}()
			waits.Eventually(t, "all claims are sent, without an answer", func() bool { return p.Ran("acquire-joined") == 3 })
			assert.Equal(t, p.Ran("acquire"), 0, "runs for one key")
			cancel()
			for _, c := range <-ended {
				assert.True(t, c.Err != nil, "nothing was answered: %+v", c.Value)
			}
		})
	}
}

// TestRedisBatchNeedsNoReplicas: WAIT is about one connection, so a store whose claims are
// confirmed by replicas makes no batches.
func TestRedisBatchNeedsNoReplicas(t *testing.T) {
	t.Parallel()
	s := teststores.Redis(t, servers.RueidisTo(t, servers.StartRedis(t).Addr), &redisstore.Options{Replicas: 1})
	_, err := s.AcquireBatch(t.Context(), nil)
	assert.ErrorIs(t, err, errors.ErrUnsupported, "claims")
	_, err = s.ExtendBatch(t.Context(), nil)
	assert.ErrorIs(t, err, errors.ErrUnsupported, "extends")
	_, err = s.CompleteBatch(t.Context(), nil)
	assert.ErrorIs(t, err, errors.ErrUnsupported, "ends")
	_, err = s.ReleaseBatch(t.Context(), nil)
	assert.ErrorIs(t, err, errors.ErrUnsupported, "releases")
}
