package servers

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/retrysafe/retrysafe/adapters/goredisclient"
	"github.com/retrysafe/retrysafe/adapters/rueidisclient"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/redisclient"
)

// RedisDo runs one command on a server. It returns an empty answer if the server refuses.
func RedisDo(addr string, words ...any) string {
	c := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, DialTimeout: time.Minute, ReadTimeout: time.Minute})
	defer func() { _ = c.Close() }()
	v, err := c.Do(context.Background(), words...).Result()
	if err != nil {
		return ""
	}
	return fmt.Sprint(v)
}

// RedisClients are the adapters; each connects to the servers of an address.
var RedisClients = map[string]func(t *testing.T, url string) redisclient.Client{
	"rueidis": func(t *testing.T, url string) redisclient.Client {
		t.Helper()
		return RueidisTo(t, url)
	},
	"go-redis": func(t *testing.T, url string) redisclient.Client { t.Helper(); return goRedisTo(t, url, time.Minute) },
}

// goRedisTo returns a client of go-redis that gives a reply up after read. A busy machine needs
// longer than its defaults of a few seconds.
func goRedisTo(t *testing.T, url string, read time.Duration) redisclient.Client {
	t.Helper()
	a, err := redisclient.ParseURL(url)
	assert.NoError(t, err, "address")
	const slow = time.Minute
	var r redis.UniversalClient
	switch a.Mode {
	case redisclient.Sentinel:
		r = redis.NewFailoverClient(&redis.FailoverOptions{MasterName: a.Name, SentinelAddrs: a.Hosts, DialTimeout: slow, ReadTimeout: read, WriteTimeout: slow})
	case redisclient.Cluster:
		r = redis.NewClusterClient(&redis.ClusterOptions{Addrs: a.Hosts, Username: a.Username, Password: a.Password, DialTimeout: slow, ReadTimeout: read, WriteTimeout: slow})
	default:
		r = redis.NewClient(&redis.Options{Addr: a.Hosts[0], Username: a.Username, Password: a.Password, DialTimeout: slow, ReadTimeout: read, WriteTimeout: slow})
	}
	t.Cleanup(func() { _ = r.Close() })
	c, err := goredisclient.New(r)
	assert.NoError(t, err, "client")
	return c
}

// RueidisTo returns a client of the servers.
func RueidisTo(tb testing.TB, url string) *rueidisclient.Client {
	tb.Helper()
	if !strings.Contains(url, "://") {
		url = "redis://" + url
	}
	a, err := redisclient.ParseURL(url)
	assert.NoError(tb, err, "address")
	c, err := rueidisclient.Open(a)
	assert.NoError(tb, err, "connect")
	tb.Cleanup(func() { _ = c.Close() })
	return c
}
