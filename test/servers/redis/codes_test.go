package redis_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/redisclient"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
	"github.com/retrysafe/retrysafe/test/servers/internal/waits"
)

// refusing is a server that refuses something.
type refusing struct {
	url   string
	words []string // a command that it refuses
}

// evalCommand returns a command that runs a script on keys.
func evalCommand(source string, keys ...string) []string {
	return append([]string{"EVAL", source, strconv.Itoa(len(keys))}, keys...)
}

const (
	write = "return redis.call('SET', KEYS[1], 'v')"
	read  = "return redis.call('GET', KEYS[1])"
)

// refusals has each code that a package of this project switches on or explains, and a server that
// refuses with it. (NOAUTH and WRONGPASS end the connection; see TestRedisWrongPassword.)
var refusals = map[string]func(t *testing.T, k *servers.RedisKind) refusing{
	"ERR": func(t *testing.T, k *servers.RedisKind) refusing {
		t.Helper()
		return onShared(t, k, "NO-SUCH-COMMAND")
	},
	"ERR of a command that a user may not know": func(t *testing.T, k *servers.RedisKind) refusing {
		t.Helper()
		return refusing{"redis://" + k.StartHosted(t).Addr, []string{"CONFIG", "GET", "maxmemory-policy"}}
	},
	"ERR of capital letters": func(t *testing.T, k *servers.RedisKind) refusing { t.Helper(); return onShared(t, k, "EXEC") },
	"ERR in a script": func(t *testing.T, k *servers.RedisKind) refusing {
		t.Helper()
		return onShared(t, k, evalCommand("return redis.call('NO-SUCH-COMMAND')", "k")...)
	},
	"NOSCRIPT": func(t *testing.T, k *servers.RedisKind) refusing {
		t.Helper()
		return onShared(t, k, "EVALSHA", strings.Repeat("0", 40), "0")
	},
	"WRONGTYPE": func(t *testing.T, k *servers.RedisKind) refusing {
		t.Helper()
		name := servers.RedisPrefix() + "list"
		servers.RedisDo(k.Shared.Get(t).Addr, "LPUSH", name, "an entry")
		return onShared(t, k, evalCommand(read, name)...)
	},
	"RSFORMAT": func(t *testing.T, k *servers.RedisKind) refusing {
		t.Helper()
		return onShared(t, k, evalCommand("return redis.error_reply('RSFORMAT the record is of another form')", "k")...)
	},
	"NOGROUP": func(t *testing.T, k *servers.RedisKind) refusing {
		t.Helper()
		return onShared(t, k, "XPENDING", "no-such-stream", "a-group")
	},
	"CROSSSLOT": func(t *testing.T, k *servers.RedisKind) refusing { t.Helper(); return onCluster(t, k, "{a}1", "{b}1") },
	"MOVED":     func(t *testing.T, k *servers.RedisKind) refusing { t.Helper(); return onCluster(t, k, "{a}1") },
	"NOPERM": func(t *testing.T, k *servers.RedisKind) refusing {
		t.Helper()
		return refusing{k.Shared.Get(t).AsUser(t, "reader", "rs:", "~*", "+@all", "-eval", "-evalsha"), evalCommand(write, "k")}
	},
	"NOPERM in a script": func(t *testing.T, k *servers.RedisKind) refusing {
		t.Helper()
		return refusing{k.Shared.Get(t).AsUser(t, "who-may-not-set", "rs:", "~*", "+@all", "-set"), evalCommand(write, "k")}
	},
	"OOM": func(t *testing.T, k *servers.RedisKind) refusing {
		t.Helper()
		return refusing{"redis://" + k.Start(t, "--maxmemory", "1", "--maxmemory-policy", "noeviction").Addr, evalCommand(write, "k")}
	},
	"NOREPLICAS": func(t *testing.T, k *servers.RedisKind) refusing {
		t.Helper()
		return refusing{"redis://" + k.Start(t, "--min-replicas-to-write", "1").Addr, evalCommand(write, "k")}
	},
	"READONLY": func(t *testing.T, k *servers.RedisKind) refusing {
		t.Helper()
		_, replica := k.StartCouple(t)
		return refusing{"redis://" + replica.Addr, evalCommand(write, "k")}
	},
	"MASTERDOWN": func(t *testing.T, k *servers.RedisKind) refusing {
		t.Helper()
		s := k.Start(t, "--replicaof", "127.0.0.1 1")
		servers.RedisDo(s.Addr, "CONFIG", "SET", "replica-serve-stale-data", "no")
		return refusing{"redis://" + s.Addr, evalCommand(read, "k")}
	},
	"CLUSTERDOWN": func(t *testing.T, k *servers.RedisKind) refusing {
		t.Helper()
		return refusing{"redis://" + k.Start(t, "--cluster-enabled", "yes", "--cluster-port", servers.FreePort(t)).Addr, evalCommand(read, "k")}
	},
	"MISCONF": startMisconfigured,
	"LOADING": startLoading,
	"BUSY":    startBusy,
}

func onShared(t *testing.T, k *servers.RedisKind, words ...string) refusing {
	t.Helper()
	return refusing{"redis://" + k.Shared.Get(t).Addr, words}
}

// onCluster reads keys on a primary that does not have the slot of the first.
func onCluster(t *testing.T, k *servers.RedisKind, keys ...string) refusing {
	t.Helper()
	nodes := k.Cluster.Get(t).Nodes
	other := nodes[0]
	if redisclient.Slot(keys[0]) < redisclient.Slots/3 {
		other = nodes[2]
	}
	return refusing{"redis://" + other.Addr, evalCommand(read, keys...)}
}

// startMisconfigured returns a server that cannot write its snapshot.
func startMisconfigured(t *testing.T, k *servers.RedisKind) refusing {
	t.Helper()
	dir := t.TempDir()
	s := k.New(t)
	s.Start(t, dir, "--save", "3600 1000")
	assert.NoError(t, os.MkdirAll(filepath.Join(dir, "dump.rdb", "in the way"), 0o700), "a directory of that name")
	servers.RedisDo(s.Addr, "SET", "k", "v")
	servers.RedisDo(s.Addr, "BGSAVE")
	waits.Eventually(t, "the snapshot fails", func() bool {
		return strings.Contains(servers.RedisDo(s.Addr, "INFO", "persistence"), "rdb_last_bgsave_status:err")
	})
	return refusing{"redis://" + s.Addr, evalCommand(write, "k")}
}

// startLoading returns a server that loads its data until it is killed.
func startLoading(t *testing.T, k *servers.RedisKind) refusing {
	t.Helper()
	s := k.Start(t, "--loading-process-events-interval-bytes", "1024")
	servers.RedisDo(s.Addr, "DEBUG", "POPULATE", 100_000, "other", 100)
	servers.RedisDo(s.Addr, "CONFIG", "SET", "key-load-delay", 20_000) // µs
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		servers.RedisDo(s.Addr, "DEBUG", "RELOAD")
	}()
	t.Cleanup(func() { s.Kill(); <-ended })
	waits.Eventually(t, "it loads", func() bool { return servers.RedisDo(s.Addr, "DBSIZE") == "" })
	return refusing{"redis://" + s.Addr, evalCommand(read, "k")}
}

// startBusy returns a server that runs a script without an end.
func startBusy(t *testing.T, k *servers.RedisKind) refusing {
	t.Helper()
	s := k.Start(t, "--busy-reply-threshold", "10")
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		servers.RedisDo(s.Addr, "EVAL", "while true do end", 0)
	}()
	t.Cleanup(func() { s.Kill(); <-ended })
	waits.Eventually(t, "it is busy", func() bool { return servers.RedisDo(s.Addr, "DBSIZE") == "" })
	return refusing{"redis://" + s.Addr, evalCommand(read, "k")}
}

// TestRedisCodes: a refusal has the code and the text that the server gave it, with each client and
// in each way to ask. Packages decide by the code.
func TestRedisCodes(t *testing.T) {
	t.Parallel()
	servers.EachRedis(t, testRedisCodes)
}

func testRedisCodes(t *testing.T, k *servers.RedisKind) {
	t.Helper()
	for name, start := range refusals {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := start(t, k)
			code, _, _ := strings.Cut(name, " ")
			for adapter, connect := range servers.RedisClients {
				client, errs := connect(t, server.url), map[string]error{}
				waits.Eventually(t, "the server answers before the client's own time limits", func() bool {
					errs = sendRefused(t, client, server)
					for _, err := range errs {
						if late := net.Error(nil); errors.As(err, &late) && late.Timeout() {
							return false
						}
					}
					return true
				})
				for way, err := range errs {
					var refused redisclient.Error
					assert.True(t, errors.As(err, &refused), "%s, %s: the server refuses: %v", adapter, way, err)
					assert.Equal(t, refused.Code(), code, "%s, %s: code of %q", adapter, way, string(refused))
				}
			}
		})
	}
}

// sendRefused sends the refused command in every way that the client has.
func sendRefused(t *testing.T, c redisclient.Client, server refusing) map[string]error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waits.Patience)
	defer cancel()
	errs := map[string]error{}
	address, err := redisclient.ParseURL(server.url)
	assert.NoError(t, err, "address")
	errs["At"] = c.(redisclient.Dialer).At(ctx, address.Hosts[0], func(do func(context.Context, ...string) redisclient.Reply) error {
		return do(ctx, server.words...).Err
	})
	if server.words[0] != "EVAL" {
		return errs
	}
	call := redisclient.Call{Script: redisclient.NewScript("refused", server.words[1]), Keys: server.words[3:]}
	errs["Eval"] = c.Eval(ctx, call).Err
	r, _ := c.(redisclient.Replicated).EvalWait(ctx, call, 0, time.Millisecond)
	errs["EvalWait"] = r.Err
	for i, r := range c.(redisclient.Pipeliner).EvalMany(ctx, []redisclient.Call{call, call}) {
		errs["EvalMany "+strconv.Itoa(i)] = r.Err
	}
	return errs
}
