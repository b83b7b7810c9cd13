package servers

import (
	"maps"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/internal/servertest"
)

// PostgresVersion is a version of PostgreSQL, with the server that its tests share.
type PostgresVersion struct {
	servertest.PostgresServer
	Shared Shared[*Postgres]
	fresh  template
}

// PostgresVersions are the versions that tests run on. What holds on each version is tested on
// each. A test of what another version cannot change runs on the first.
var PostgresVersions = func() (all []*PostgresVersion) {
	for _, server := range servertest.PostgresServers() {
		v := &PostgresVersion{PostgresServer: server}
		v.Shared.Start = func(tb testing.TB) *Postgres {
			tb.Helper()
			return v.Start(tb, "-c", "max_connections=500", "-c", "deadlock_timeout=100ms")
		}
		all = append(all, v)
	}
	return all
}()

// EachPostgres runs a test on each version.
func EachPostgres(t *testing.T, f func(t *testing.T, v *PostgresVersion)) {
	t.Helper()
	for _, v := range PostgresVersions {
		t.Run(v.Name, func(t *testing.T) {
			t.Parallel()
			f(t, v)
		})
	}
}

// WithPostgres adds to a table, by the names of servers, what row returns for each version. The
// words in more end their names.
func WithPostgres[T any](table map[string]T, row func(v *PostgresVersion) T, more ...string) map[string]T {
	table = maps.Clone(table)
	for _, v := range PostgresVersions {
		table[strings.Join(append([]string{v.Name}, more...), " ")] = row(v)
	}
	return table
}

// WithRedis adds to a table, by the names of servers, what row returns for each kind.
func WithRedis[T any](table map[string]T, row func(k *RedisKind) T) map[string]T {
	table = maps.Clone(table)
	for _, k := range RedisKinds {
		table[k.Name] = row(k)
	}
	return table
}

// RedisKind is Redis or a server with its commands, with the servers that its tests share.
type RedisKind struct {
	servertest.RedisServer
	Shared  Shared[*Redis]
	Hosted  Shared[*Redis]
	Cluster Shared[*RedisCluster]
}

// RedisKinds are the kinds that tests run on. What holds on each kind is tested on each. A test of
// what another kind cannot change runs on the first.
var RedisKinds = func() (all []*RedisKind) {
	for _, server := range servertest.RedisServers() {
		k := &RedisKind{RedisServer: server}
		k.Shared.Start = func(tb testing.TB) *Redis { tb.Helper(); return k.Start(tb) }
		k.Hosted.Start = func(tb testing.TB) *Redis { tb.Helper(); return k.StartHosted(tb) }
		k.Cluster.Start = func(tb testing.TB) *RedisCluster { tb.Helper(); return k.StartCluster(tb).Steady() }
		all = append(all, k)
	}
	return all
}()

// Client returns the name of a client for a suite that runs with one: first on the first kind, and
// other on others, so that each client is used on each kind.
func (k *RedisKind) Client(first, other string) string {
	if k == RedisKinds[0] {
		return first
	}
	return other
}

// EachRedis runs a test on each kind.
func EachRedis(t *testing.T, f func(t *testing.T, k *RedisKind)) {
	t.Helper()
	for _, k := range RedisKinds {
		t.Run(k.Name, func(t *testing.T) {
			t.Parallel()
			f(t, k)
		})
	}
}
