package redis_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/redisclient"
	"github.com/retrysafe/retrysafe/stores/nearstore"
	"github.com/retrysafe/retrysafe/stores/redisstore"
	"github.com/retrysafe/retrysafe/stores/sealstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/stores/storetest"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
	"github.com/retrysafe/retrysafe/test/servers/internal/teststores"
)

// TestSealedRedisStore runs the contract over a sealed store whose data keys are on the same
// server, with copies of sealed answers in between, as the gateway has them.
func TestSealedRedisStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) storetest.Backend {
		t.Helper()
		server := servers.RedisKinds[0].Shared.Get(t)
		o, ring := &redisstore.Options{Prefix: servers.RedisPrefix()}, sealstore.NewRing("a")
		open := func() storeapi.Store {
			near := nearstore.New(teststores.Redis(t, servers.RedisClients["rueidis"](t, "redis://"+server.Addr), o), nil)
			return sealstore.New(near, ring, &sealstore.Options{OnlySealed: true})
		}
		return storetest.Backend{Store: open(), Reopen: open}
	}, batching)
}

// TestNothingInTheDump: a dump of the server has no text of the work. Without the seal it has, so
// the test can fail.
func TestNothingInTheDump(t *testing.T) {
	t.Parallel()
	for _, seals := range []bool{false, true} {
		dir := t.TempDir()
		server := servers.StartRedis(t, "--dir", dir, "--rdbcompression", "no")
		client := servers.RedisClients["rueidis"](t, "redis://"+server.Addr)
		store := storeapi.Store(teststores.Redis(t, client, nil))
		if seals {
			store = sealstore.New(store, sealstore.NewRing("a"), nil)
		}
		e := teststores.Engine(t, store).WithPolicy(retrysafe.Policy{OnDoubt: retrysafe.Reexecute})
		for _, id := range []string{"done", "half-done"} {
			_, _ = retrysafe.Do(t.Context(), e, retrysafe.Key{Tenant: "ada", Operation: "charge", ID: id}, func(ctx context.Context) (string, error) {
				_, err := retrysafe.Step(ctx, "pay", func(context.Context) (string, error) { return "step-plaintext", nil })
				if id == "half-done" {
					return "", errors.New("error-plaintext")
				}
				return "answer-plaintext", err
			})
		}
		nodes, ok := client.(redisclient.Nodes)
		assert.True(t, ok, "the client reaches the server itself")
		assert.NoError(t, nodes.EachPrimary(t.Context(), func(ctx context.Context, do func(context.Context, ...string) redisclient.Reply) error {
			return do(ctx, "SAVE").Err
		}), "save")
		dump, err := os.ReadFile(filepath.Join(dir, "dump.rdb"))
		assert.NoError(t, err, "the dump")
		for _, text := range []string{"step-plaintext", "error-plaintext", "answer-plaintext"} {
			assert.Equal(t, strings.Contains(string(dump), text), !seals, "%s is in the dump, sealed %v", text, seals)
		}
	}
}
