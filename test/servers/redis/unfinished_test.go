package redis_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/redisclient"
	"github.com/retrysafe/retrysafe/stores/redisstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
	"github.com/retrysafe/retrysafe/test/servers/internal/teststores"
	"github.com/retrysafe/retrysafe/test/servers/internal/waits"
)

// listAll returns the keys of all records that a request selects, in their order, and whether the
// store has scanned for them.
func listAll(t *testing.T, s storeapi.Lister, req storeapi.ListRequest) (keys []string, scans bool) {
	t.Helper()
	for {
		page, err := s.List(t.Context(), req)
		assert.NoError(t, err, "list %+v", req)
		assert.Equal(t, len(page.Unreadable), 0, "unreadable records")
		for _, rec := range page.Records {
			text, err := rec.Key.MarshalText()
			assert.NoError(t, err, "the text of a key")
			keys = append(keys, string(text))
		}
		scans = scans || page.Scans
		if req.After = page.Next; req.After == "" {
			return keys, scans
		}
	}
}

// awaitIndexed waits until lists of unfinished records do not scan.
func awaitIndexed(t *testing.T, s storeapi.Lister) {
	t.Helper()
	waits.Eventually(t, "the index is complete", func() bool {
		_, scans := listAll(t, s, storeapi.ListRequest{InDoubt: true})
		return !scans
	})
}

// unfinishedAt are the servers with an index of unfinished records: single ones and a cluster.
func unfinishedAt(t *testing.T, f func(t *testing.T, s *redisstore.Store, o *redisstore.Options)) {
	t.Helper()
	servers.EachRedis(t, func(t *testing.T, k *servers.RedisKind) { t.Helper(); unfinishedOn(t, k, f) })
}

func unfinishedOn(t *testing.T, k *servers.RedisKind, f func(t *testing.T, s *redisstore.Store, o *redisstore.Options)) {
	t.Helper()
	for adapter, connect := range servers.RedisClients {
		for kind, url := range map[string]func(t *testing.T) string{
			"single":  func(t *testing.T) string { t.Helper(); return "redis://" + k.Shared.Get(t).Addr },
			"cluster": func(t *testing.T) string { t.Helper(); return k.Cluster.Get(t).URL() },
		} {
			if only := k.Client("", map[string]string{"single": "rueidis", "cluster": "go-redis"}[kind]); only != "" && adapter != only {
				continue
			}
			for _, prefix := range []string{"", "{tag}:"} {
				t.Run(adapter+" "+kind+prefix, func(t *testing.T) {
					t.Parallel()
					o, at := &redisstore.Options{Prefix: prefix + servers.RedisPrefix()}, url(t)
					// Every scan of the server would read these thousands of keys.
					t.Cleanup(func() { removeKeys(t, at, o.Prefix+"*") })
					f(t, teststores.Redis(t, connect(t, at), o), o)
				})
			}
		}
	}
}

// TestRedisUnfinished: after any calls, the index lists what a scan finds, on every page size.
func TestRedisUnfinished(t *testing.T) {
	t.Parallel()
	unfinishedAt(t, func(t *testing.T, s *redisstore.Store, _ *redisstore.Options) {
		t.Helper()
		awaitIndexed(t, s)
		const callers, each = 16, 20
		var group sync.WaitGroup
		for c := range callers {
			group.Go(func() {
				for i := range each {
					changeKey(t, s, fmt.Sprintf("%d-%d", c, i), (c+i)%8)
				}
			})
		}
		group.Wait()
		for _, of := range []storeapi.ListRequest{
			{InDoubt: true},
			{State: storeapi.StateInProgress},
			{State: storeapi.StateInProgress, InDoubt: true},
			{InDoubt: true, Namespace: "app"},
			{InDoubt: true, Namespace: "ap"},
			{InDoubt: true, Namespace: "app", Layer: "fn"},
			{InDoubt: true, Operation: "order"},
			{InDoubt: true, Layer: "other"},
		} {
			for _, limit := range []int{1, 7, 1000} {
				of.Limit = limit
				got, scans := listAll(t, s, of)
				assert.True(t, !scans, "%+v scans", of)
				assert.Equal(t, got, scanFor(t, s, of), "records of %+v", of)
			}
		}
		progress, _ := listAll(t, s, storeapi.ListRequest{State: storeapi.StateInProgress})
		assert.Equal(t, len(progress), callers*each*4/8, "records in progress")
		_, scans := listAll(t, s, storeapi.ListRequest{State: storeapi.StateCompleted})
		assert.True(t, scans, "a list of completed records scans")
	})
}

// changeKey makes one of eight things of a key, four of which leave the record in progress.
func changeKey(t *testing.T, s *redisstore.Store, id string, what int) {
	t.Helper()
	req := teststores.Request(id)
	req.Lease = time.Hour // none ends while two lists are compared
	got, err := s.Acquire(t.Context(), req)
	assert.NoError(t, err, "claim")
	rec := got.Record
	complete := storeapi.CompleteRequest{Key: rec.Key, Fence: rec.Fence, Owner: rec.Owner, State: storeapi.StateCompleted, Retention: time.Hour}
	release := storeapi.ReleaseRequest{Key: rec.Key, Fence: rec.Fence, Owner: rec.Owner, Retention: time.Hour, InDoubt: what == 3}
	switch what {
	case 0, 1:
		_, err = s.Complete(t.Context(), complete)
	case 2, 3:
		err = s.Release(t.Context(), release)
	case 4: // released, and claimed again
		err = s.Release(t.Context(), release)
		assert.NoError(t, err, "release")
		req.Owner = teststores.Owner("another")
		_, err = s.Acquire(t.Context(), req)
	case 5: // a retention of its own takes the longer path
		complete.Retention, complete.State = 0, storeapi.StateFailed
		_, err = s.Complete(t.Context(), complete)
	case 6:
		_, err = s.Acquire(t.Context(), req)
	}
	assert.NoError(t, err, "call %d", what)
}

// scanFor returns what a scan finds for a request.
func scanFor(t *testing.T, s *redisstore.Store, of storeapi.ListRequest) (keys []string) {
	t.Helper()
	every := storeapi.ListRequest{Namespace: of.Namespace, Layer: of.Layer, Operation: of.Operation, Limit: 1000}
	for {
		page, err := s.List(t.Context(), every)
		assert.NoError(t, err, "scan")
		assert.True(t, page.Scans, "a list of all records scans")
		for _, rec := range page.Records {
			if rec.State == storeapi.StateInProgress && (!of.InDoubt || rec.InDoubt()) {
				text, _ := rec.Key.MarshalText()
				keys = append(keys, string(text))
			}
		}
		if every.After = page.Next; every.After == "" {
			return keys
		}
	}
}

// TestRedisUnfinishedBefore: records that were written without an index are listed, by a scan until
// the index has them.
func TestRedisUnfinishedBefore(t *testing.T) {
	t.Parallel()
	unfinishedAt(t, func(t *testing.T, s *redisstore.Store, o *redisstore.Options) {
		t.Helper()
		var want []string
		for i := range 300 {
			changeKey(t, s, fmt.Sprint(i), i%8)
		}
		want = scanFor(t, s, storeapi.ListRequest{InDoubt: true})
		removeIndexes(t, o.Prefix)
		got, scans := listAll(t, s, storeapi.ListRequest{InDoubt: true})
		assert.Equal(t, got, want, "the list without an index")
		assert.True(t, scans, "it scans")
		awaitIndexed(t, s)
		got, _ = listAll(t, s, storeapi.ListRequest{InDoubt: true})
		assert.Equal(t, got, want, "the list by the index")

		removeIndexes(t, o.Prefix)
		changeKey(t, s, "after", 3)
		got, scans = listAll(t, s, storeapi.ListRequest{InDoubt: true})
		assert.Equal(t, len(got), len(want)+1, "the list after the index was lost")
		assert.True(t, scans, "it scans")
	})
}

// removeIndexes removes the indexes of a prefix on all servers that tests share.
func removeIndexes(t *testing.T, prefix string) {
	t.Helper()
	var urls []string
	for _, k := range servers.RedisKinds {
		urls = append(urls, "redis://"+k.Shared.Get(t).Addr, k.Cluster.Get(t).URL())
	}
	for _, url := range urls {
		removeKeys(t, url, prefix+"unfinished*")
	}
}

// removeKeys removes the keys that match a pattern.
func removeKeys(t *testing.T, url, pattern string) {
	t.Helper()
	nodes, ok := servers.RedisClients["rueidis"](t, url).(redisclient.Nodes)
	assert.True(t, ok, "the adapter asks each server")
	assert.NoError(t, nodes.EachPrimary(context.Background(), func(ctx context.Context, do func(context.Context, ...string) redisclient.Reply) error {
		found := do(ctx, "KEYS", pattern)
		names, _ := found.Value.([]any)
		for _, name := range names {
			if r := do(ctx, "UNLINK", fmt.Sprint(name)); r.Err != nil {
				return r.Err
			}
		}
		return found.Err
	}), "remove %s", pattern)
}

// TestRedisUnfinishedStaysSmall: names of finished records go at their end, and those of expired
// ones when a list finds them.
func TestRedisUnfinishedStaysSmall(t *testing.T) {
	t.Parallel()
	server := servers.StartRedis(t)
	for adapter, connect := range servers.RedisClients {
		s := teststores.Redis(t, connect(t, "redis://"+server.Addr), &redisstore.Options{Prefix: adapter + ":"})
		awaitIndexed(t, s)
		names := func() string { return servers.RedisDo(server.Addr, "ZCARD", adapter+":unfinished") }
		reqs := claimsOf(t.Name(), 2000)
		claims, err := s.AcquireBatch(t.Context(), reqs)
		assert.NoError(t, err, "claims")
		assert.Equal(t, names(), "2001", "names of running work, and the mark")
		_, err = s.CompleteBatch(t.Context(), endsOf(claims))
		assert.NoError(t, err, "ends")
		assert.Equal(t, names(), "1", "names after the ends")
		for what := range 7 {
			changeKey(t, s, fmt.Sprint(adapter, what), what)
		}
		assert.Equal(t, names(), "4", "names of three records in progress, after others were released")
		page, err := s.List(t.Context(), storeapi.ListRequest{State: storeapi.StateInProgress})
		assert.NoError(t, err, "list")
		for _, rec := range page.Records {
			_, err := s.Complete(t.Context(), storeapi.CompleteRequest{Key: rec.Key, Fence: rec.Fence, Owner: rec.Owner, State: storeapi.StateFailed, Retention: time.Hour})
			assert.NoError(t, err, "end")
		}
		assert.Equal(t, names(), "1", "names after all ends")
		for i := range reqs {
			reqs[i].Key.Tenant, reqs[i].OnDoubt = "gone", storeapi.Reexecute
			reqs[i].Lease, reqs[i].Retention = time.Millisecond, time.Millisecond
		}
		_, err = s.AcquireBatch(t.Context(), reqs)
		assert.NoError(t, err, "claims that expire")
		waits.Eventually(t, "the records expire", func() bool {
			rec, err := s.Lookup(t.Context(), reqs[len(reqs)-1].Key)
			return err == nil && rec.State == 0
		})
		assert.Equal(t, names(), "2001", "names of expired records")
		got, _ := listAll(t, s, storeapi.ListRequest{InDoubt: true})
		assert.Equal(t, len(got), 0, "records in doubt")
		assert.Equal(t, names(), "1", "names after a list")

		running := reqs[0]
		running.Key.Tenant, running.Lease, running.OnDoubt = "runs", time.Hour, storeapi.Refuse
		_, err = s.Acquire(t.Context(), running)
		assert.NoError(t, err, "claim")
		_, _ = listAll(t, s, storeapi.ListRequest{InDoubt: true})
		assert.Equal(t, names(), "2", "a list leaves what runs")
	}
}

// TestRedisUnfinishedForbidden: what may not be added to the index is not claimed.
func TestRedisUnfinishedForbidden(t *testing.T) {
	t.Parallel()
	server := servers.StartRedis(t)
	assert.Equal(t, servers.RedisDo(server.Addr, "ACL", "SETUSER", "shop", "on", ">a-password", "~rs:*", "&*", "+@all", "-zadd"), "OK", "the user")
	for adapter, connect := range servers.RedisClients {
		s := teststores.Redis(t, connect(t, "redis://shop:a-password@"+server.Addr), nil)
		reqs := claimsOf(t.Name()+adapter, 20)
		claims, err := s.AcquireBatch(t.Context(), reqs)
		assert.NoError(t, err, "batch")
		for i, c := range claims {
			assert.True(t, c.Err != nil && strings.Contains(c.Err.Error(), "it needs EVALSHA, EVAL, GET, SET, DEL, TIME, PEXPIRETIME, PUBLISH, ZADD"), "%s: error of claim %d: %v", adapter, i, c.Err)
			rec, err := s.Lookup(context.Background(), reqs[i].Key)
			assert.NoError(t, err, "look up")
			assert.Equal(t, rec.State, storeapi.State(0), "%s: state of claim %d", adapter, i)
		}
	}
	keys := strings.Fields(servers.RedisDo(server.Addr, "KEYS", "rs:app*"))
	assert.Equal(t, len(slices.DeleteFunc(keys, func(k string) bool { return k == "[]" })), 0, "records: %v", keys)
}
