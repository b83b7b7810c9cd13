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

	"github.com/retrysafe/retrysafe/integration/internal/servers"
	"github.com/retrysafe/retrysafe/integration/internal/waits"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/redisclient"
)

// refusing is a server that refuses something.
type refusing struct {
	url   string
	words []string // a command that it refuses
}

// script returns a command that runs a script on keys.
func script(source string, keys ...string) []string {
	return append([]string{"EVAL", source, strconv.Itoa(len(keys))}, keys...)
}

const (
	write = "return redis.call('SET', KEYS[1], 'v')"
	read  = "return redis.call('GET', KEYS[1])"
)

// refusals has each code that a package of this project switches on or explains, and a server that
// refuses with it. (NOAUTH and WRONGPASS end the connection; see TestRedisWrongPassword.)
var refusals = map[string]func(t *testing.T) refusing{
	"ERR": func(t *testing.T) refusing { t.Helper(); return onShared(t, "NO-SUCH-COMMAND") },
	"ERR of a command that a user may not know": func(t *testing.T) refusing {
		t.Helper()
		return refusing{"redis://" + servers.StartHostedRedis(t).Addr, []string{"CONFIG", "GET", "maxmemory-policy"}}
	},
	"ERR of capital letters": func(t *testing.T) refusing { t.Helper(); return onShared(t, "EXEC") },
	"ERR in a script": func(t *testing.T) refusing {
		t.Helper()
		return onShared(t, script("return redis.call('NO-SUCH-COMMAND')", "k")...)
	},
	"NOSCRIPT": func(t *testing.T) refusing { t.Helper(); return onShared(t, "EVALSHA", strings.Repeat("0", 40), "0") },
	"WRONGTYPE": func(t *testing.T) refusing {
		t.Helper()
		name := servers.RedisPrefix() + "list"
		servers.RedisDo(servers.SharedRedis.Get(t).Addr, "LPUSH", name, "an entry")
		return onShared(t, script(read, name)...)
	},
	"RSFORMAT": func(t *testing.T) refusing {
		t.Helper()
		return onShared(t, script("return redis.error_reply('RSFORMAT the record is of another form')", "k")...)
	},
	"NOGROUP":   func(t *testing.T) refusing { t.Helper(); return onShared(t, "XPENDING", "no-such-stream", "a-group") },
	"CROSSSLOT": func(t *testing.T) refusing { t.Helper(); return onCluster(t, "{a}1", "{b}1") },
	"MOVED":     func(t *testing.T) refusing { t.Helper(); return onCluster(t, "{a}1") },
	"NOPERM": func(t *testing.T) refusing {
		t.Helper()
		return refusing{servers.SharedRedis.Get(t).AsUser(t, "reader", "rs:", "~*", "+@all", "-eval", "-evalsha"), script(write, "k")}
	},
	"NOPERM in a script": func(t *testing.T) refusing {
		t.Helper()
		return refusing{servers.SharedRedis.Get(t).AsUser(t, "who-may-not-set", "rs:", "~*", "+@all", "-set"), script(write, "k")}
	},
	"OOM": func(t *testing.T) refusing {
		t.Helper()
		return refusing{"redis://" + servers.StartRedis(t, "--maxmemory", "1", "--maxmemory-policy", "noeviction").Addr, script(write, "k")}
	},
	"NOREPLICAS": func(t *testing.T) refusing {
		t.Helper()
		return refusing{"redis://" + servers.StartRedis(t, "--min-replicas-to-write", "1").Addr, script(write, "k")}
	},
	"READONLY": func(t *testing.T) refusing {
		t.Helper()
		_, replica := servers.StartCouple(t)
		return refusing{"redis://" + replica.Addr, script(write, "k")}
	},
	"MASTERDOWN": func(t *testing.T) refusing {
		t.Helper()
		s := servers.StartRedis(t, "--replicaof", "127.0.0.1 1")
		servers.RedisDo(s.Addr, "CONFIG", "SET", "replica-serve-stale-data", "no")
		return refusing{"redis://" + s.Addr, script(read, "k")}
	},
	"CLUSTERDOWN": func(t *testing.T) refusing {
		t.Helper()
		return refusing{"redis://" + servers.StartRedis(t, "--cluster-enabled", "yes", "--cluster-port", servers.FreePort(t)).Addr, script(read, "k")}
	},
	"MISCONF": misconfigured,
	"LOADING": loading,
	"BUSY":    busy,
}

func onShared(t *testing.T, words ...string) refusing {
	t.Helper()
	return refusing{"redis://" + servers.SharedRedis.Get(t).Addr, words}
}

// onCluster reads keys on a primary that does not have the slot of the first.
func onCluster(t *testing.T, keys ...string) refusing {
	t.Helper()
	nodes := servers.SharedCluster.Get(t).Nodes
	other := nodes[0]
	if redisclient.Slot(keys[0]) < redisclient.Slots/3 {
		other = nodes[2]
	}
	return refusing{"redis://" + other.Addr, script(read, keys...)}
}

// misconfigured returns a server that cannot write its snapshot.
func misconfigured(t *testing.T) refusing {
	t.Helper()
	dir := t.TempDir()
	s := servers.Redis{Addr: net.JoinHostPort("127.0.0.1", servers.FreePort(t))}
	s.Start(t, dir, "--save", "3600 1000")
	assert.NoError(t, os.MkdirAll(filepath.Join(dir, "dump.rdb", "in the way"), 0o700), "a directory of that name")
	servers.RedisDo(s.Addr, "SET", "k", "v")
	servers.RedisDo(s.Addr, "BGSAVE")
	waits.Eventually(t, "the snapshot fails", func() bool {
		return strings.Contains(servers.RedisDo(s.Addr, "INFO", "persistence"), "rdb_last_bgsave_status:err")
	})
	return refusing{"redis://" + s.Addr, script(write, "k")}
}

// loading returns a server that loads its data until it is killed.
func loading(t *testing.T) refusing {
	t.Helper()
	s := servers.StartRedis(t, "--loading-process-events-interval-bytes", "1024")
	servers.RedisDo(s.Addr, "DEBUG", "POPULATE", 100_000, "other", 100)
	servers.RedisDo(s.Addr, "CONFIG", "SET", "key-load-delay", 20_000) // µs
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		servers.RedisDo(s.Addr, "DEBUG", "RELOAD")
	}()
	t.Cleanup(func() { s.Kill(); <-ended })
	waits.Eventually(t, "it loads", func() bool { return servers.RedisDo(s.Addr, "DBSIZE") == "" })
	return refusing{"redis://" + s.Addr, script(read, "k")}
}

// busy returns a server that runs a script without an end.
func busy(t *testing.T) refusing {
	t.Helper()
	s := servers.StartRedis(t, "--busy-reply-threshold", "10")
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		servers.RedisDo(s.Addr, "EVAL", "while true do end", 0)
	}()
	t.Cleanup(func() { s.Kill(); <-ended })
	waits.Eventually(t, "it is busy", func() bool { return servers.RedisDo(s.Addr, "DBSIZE") == "" })
	return refusing{"redis://" + s.Addr, script(read, "k")}
}

// TestRedisCodes: a refusal has the code and the text that the server gave it, with each client and
// in each way to ask. Packages decide by the code.
func TestRedisCodes(t *testing.T) {
	t.Parallel()
	for name, start := range refusals {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := start(t)
			code, _, _ := strings.Cut(name, " ")
			for adapter, connect := range servers.RedisClients {
				for way, err := range ask(t, connect(t, server.url), server) {
					var refused redisclient.Error
					assert.True(t, errors.As(err, &refused), "%s, %s: the server refuses: %v", adapter, way, err)
					assert.Equal(t, refused.Code(), code, "%s, %s: code of %q", adapter, way, string(refused))
				}
			}
		})
	}
}

// ask sends the refused command in every way that the client has.
func ask(t *testing.T, c redisclient.Client, server refusing) map[string]error {
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
