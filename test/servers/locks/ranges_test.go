package locks_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/idgen"
	"github.com/retrysafe/retrysafe/idgen/rangestest"
	"github.com/retrysafe/retrysafe/idgen/redisranges"
	"github.com/retrysafe/retrysafe/idgen/sqlranges"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/redisclient"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
	"github.com/retrysafe/retrysafe/test/servers/internal/sqltest"
	"github.com/retrysafe/retrysafe/test/servers/internal/waits"
)

// creator is what all sources also implement.
type creator interface {
	idgen.Ranges
	Create(ctx context.Context, tag string, first, step int64) (bool, error)
}

func createTag(ctx context.Context, r idgen.Ranges, tag string, first int64) error {
	c, ok := r.(creator)
	if !ok {
		return errors.New("this source makes no tags")
	}
	_, err := c.Create(ctx, tag, first, 1)
	return err
}

// rangesOn returns a source on a separate pool.
func rangesOn(tb testing.TB, w sqlWorld, o *sqlranges.Options) *sqlranges.Ranges {
	tb.Helper()
	var own sqlranges.Options
	if o != nil {
		own = *o
	}
	if own.Logger == nil {
		own.Logger = slog.New(slog.DiscardHandler)
	}
	db := sqltest.Open(tb, w.driver, w.dsn)
	db.SetMaxOpenConns(10)
	r, err := sqlranges.New(db, w.dialect, &own)
	assert.NoError(tb, err, "a source")
	return r
}

// sqlWorld is a database.
type sqlWorld struct {
	driver, dsn string
	dialect     sqlranges.Dialect
}

var sqlWorlds = servers.WithPostgres(map[string]func(t *testing.T) sqlWorld{
	"SQLite": func(t *testing.T) sqlWorld {
		t.Helper()
		return sqlWorld{"sqlite", sqltest.SQLiteDSN(sqltest.NewFile(t)), sqlranges.SQLite}
	},
	"MariaDB": func(t *testing.T) sqlWorld {
		t.Helper()
		return sqlWorld{"mysql", servers.MySQLDatabase(t), sqlranges.MySQL}
	},
}, func(v *servers.PostgresVersion) func(*testing.T) sqlWorld {
	return func(t *testing.T) sqlWorld { t.Helper(); return sqlWorld{"pgx", v.Database(t), sqlranges.PostgreSQL} }
})

// TestSQLRanges runs the contract of ranges on each database.
func TestSQLRanges(t *testing.T) {
	t.Parallel()
	for name, world := range sqlWorlds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := world(t)
			rangestest.Run(t, rangestest.Config{
				Create: createTag,
				Open: func(tb testing.TB) idgen.Ranges {
					tb.Helper()
					r := rangesOn(tb, w, nil)
					assert.NoError(tb, r.Migrate(tb.Context()), "Migrate")
					return r
				},
			})
		})
	}
}

// TestRangesOfLeaf: Leaf's table with its rows, while one of Leaf's servers continues to use it.
func TestRangesOfLeaf(t *testing.T) {
	t.Parallel()
	for name, world := range sqlWorlds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := world(t)
			db := sqltest.Open(t, w.driver, w.dsn)
			update := ""
			if w.dialect == sqlranges.MySQL {
				update = " ON UPDATE CURRENT_TIMESTAMP"
			}
			sqltest.Exec(t, db, `CREATE TABLE leaf_alloc (biz_tag varchar(128) NOT NULL DEFAULT '', max_id bigint NOT NULL DEFAULT 1, step int NOT NULL,
				description varchar(256) DEFAULT NULL, update_time timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP`+update+`, PRIMARY KEY (biz_tag))`)
			sqltest.Exec(t, db, `INSERT INTO leaf_alloc (biz_tag, max_id, step, description) VALUES ('leaf-segment-test', 1, 2000, 'Test leaf Segment Mode Get Id'), ('zero', 0, 10, NULL)`)
			r := rangesOn(t, w, &sqlranges.Options{Table: "leaf_alloc"})
			assert.NoError(t, r.Migrate(t.Context()), "Migrate")
			want := func(tag string, n, first, count int64) {
				t.Helper()
				gotFirst, gotCount, err := r.Allocate(t.Context(), tag, n)
				assert.NoError(t, err, "Allocate")
				assert.Equal(t, [2]int64{gotFirst, gotCount}, [2]int64{first, count}, "the range of %s", tag)
			}
			want("leaf-segment-test", 1, 1, 2000)
			// Leaf's server
			sqltest.Exec(t, db, `UPDATE leaf_alloc SET max_id = max_id + step WHERE biz_tag = 'leaf-segment-test'`)
			want("leaf-segment-test", 3000, 4001, 3000)
			want("zero", 1, 1, 10) // an id of zero is not valid
			sqltest.Exec(t, db, `UPDATE leaf_alloc SET step = 5000 WHERE biz_tag = 'zero'`)
			want("zero", 1, 11, 5000)
			sqltest.Exec(t, db, `DROP TABLE leaf_alloc`)
			_, _, err := r.Allocate(t.Context(), "zero", 1)
			assert.Contains(t, fmt.Sprint(err), "call Migrate", "no table")
			sqltest.Exec(t, db, `CREATE TABLE leaf_alloc (biz_tag varchar(128) PRIMARY KEY, last_id bigint)`)
			assert.Contains(t, fmt.Sprint(r.Migrate(t.Context())), "other columns", "another table")
		})
	}
}

// TestRangesLostReply: if the reply of a range, or the request, is lost, ids continue after that
// range, and none is made twice.
func TestRangesLostReply(t *testing.T) {
	t.Parallel()
	server, maria := servers.StartPostgres(t), servers.StartMySQL(t)
	pg, my := servers.StartSQLProxy(t, server.Port, servers.PostgresMessage), servers.StartSQLProxy(t, maria.Port, servers.MySQLMessage)
	for name, w := range map[string]struct {
		direct, through sqlWorld
		proxy           *servers.SQLProxy
	}{
		"PostgreSQL": {
			sqlWorld{"pgx", server.URL(), sqlranges.PostgreSQL},
			sqlWorld{"pgx", server.At(pg.Addr, "default_query_exec_mode=simple_protocol"), sqlranges.PostgreSQL},
			pg,
		},
		"MariaDB": {
			sqlWorld{"mysql", maria.DSN(), sqlranges.MySQL},
			sqlWorld{"mysql", maria.At(my.Addr, "interpolateParams=true"), sqlranges.MySQL},
			my,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			direct, through := rangesOn(t, w.direct, nil), rangesOn(t, w.through, nil)
			assert.NoError(t, direct.Migrate(t.Context()), "Migrate")
			assert.NoError(t, createTag(t.Context(), direct, "order", 1), "Create")
			ids, err := idgen.NewSegment(through, "order", &idgen.SegmentOptions{Step: 10, MaxStep: 10})
			assert.NoError(t, err, "segment")
			defer ids.Close()
			other, err := idgen.NewSegment(direct, "order", &idgen.SegmentOptions{Step: 10, MaxStep: 10})
			assert.NoError(t, err, "segment")
			defer other.Close()
			made := map[idgen.ID]bool{}
			for _, what := range []servers.Cut{servers.LoseReply, servers.LoseRequest, servers.LoseReply} {
				w.proxy.Set("UPDATE", what)
				for n := 0; n < 100 || !w.proxy.Asked(); n++ {
					for _, s := range []*idgen.Segment{ids, other} {
						id, err := s.Next(t.Context())
						if err != nil {
							assert.ErrorIs(t, err, idgen.ErrNoRange, "Next")
							continue
						}
						assert.True(t, !made[id], "%d is made twice", id)
						made[id] = true
					}
				}
			}
			ids.Close()
			other.Close()
			// The server may still have to do what the proxy has sent on.
			seen := 0
			waits.Eventually(t, "two ranges were lost", func() bool {
				first, _, err := direct.Allocate(t.Context(), "order", 1)
				assert.NoError(t, err, "Allocate")
				seen++
				return int(first)-len(made)-seen >= 19
			})
		})
	}
}

// TestRedisRanges runs the contract on each kind of server, with both clients.
func TestRedisRanges(t *testing.T) {
	t.Parallel()
	servers.EachRedis(t, testRedisRanges)
}

func testRedisRanges(t *testing.T, k *servers.RedisKind) {
	t.Helper()
	safe := []string{"--appendonly", "yes", "--appendfsync", "always"}
	for name, start := range map[string]func(*testing.T) string{
		"single":   func(t *testing.T) string { t.Helper(); return "redis://" + k.Start(t, safe...).Addr },
		"sentinel": func(t *testing.T) string { t.Helper(); return k.StartPair(t, safe...).URL() },
		"cluster":  func(t *testing.T) string { t.Helper(); return k.StartCluster(t, safe...).URL() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := start(t)
			o := &redisranges.Options{Replicas: redisranges.All, ReplicaTime: time.Minute}
			if name == "single" {
				o.Replicas = 0
			}
			only := k.Client("", map[string]string{"single": "go-redis", "sentinel": "rueidis", "cluster": "go-redis"}[name])
			for client, connect := range servers.RedisClients {
				if only != "" && client != only {
					continue
				}
				t.Run(client, func(t *testing.T) {
					t.Parallel()
					rangestest.Run(t, rangestest.Config{
						Create: createTag,
						Open: func(tb testing.TB) idgen.Ranges {
							tb.Helper()
							r, err := redisranges.New(tb.Context(), connect(t, url), o)
							assert.NoError(tb, err, "New")
							return r
						},
					})
				})
			}
		})
	}
}

// TestRedisRangesFormat: a tag is stored as docs/formats.md says, and a tag of another build is
// read.
func TestRedisRangesFormat(t *testing.T) {
	t.Parallel()
	addr := servers.StartRedis(t, "--appendonly", "yes", "--appendfsync", "always").Addr
	r, err := redisranges.New(t.Context(), servers.RueidisTo(t, addr), nil)
	assert.NoError(t, err, "New")
	created, err := r.Create(t.Context(), "orders", 7, 100)
	assert.True(t, err == nil && created, "Create: %v", err)
	assert.Equal(t, servers.RedisDo(addr, "HMGET", "rs:ids:orders", "next", "step"), "[7 100]", "a tag")
	assert.Equal(t, servers.RedisDo(addr, "HLEN", "rs:ids:orders"), "2", "fields")
	servers.RedisDo(addr, "HSET", "rs:ids:bills", "next", "9007199254740993", "step", "10")
	first, count, err := r.Allocate(t.Context(), "bills", 1)
	assert.NoError(t, err, "Allocate")
	assert.Equal(t, [2]int64{first, count}, [2]int64{9007199254740993, 10}, "a range")
}

// TestRedisRangesRefuse: servers that can forget ranges are refused, or warned of if the caller
// allows them.
func TestRedisRangesRefuse(t *testing.T) {
	t.Parallel()
	client := func(s *servers.Redis) redisclient.Client {
		return servers.RedisClients["rueidis"](t, "redis://"+s.Addr)
	}
	forgetful, now, safe := servers.StartRedis(t), servers.StartRedis(t, "--appendonly", "yes"), servers.StartRedis(t, "--appendonly", "yes", "--appendfsync", "always")
	followed, _ := servers.StartCouple(t, "--appendonly", "yes", "--appendfsync", "always")
	for name, c := range map[string]struct {
		client   redisclient.Client
		replicas int
		want     string
	}{
		"no file":         {client(forgetful), 0, "append-only"},
		"now and then":    {client(now), 0, "appendfsync always"},
		"replicas":        {client(followed), 0, "set Replicas"},
		"cannot ask":      {onlyEval{client(safe)}, 0, "cannot ask"},
		"cannot wait":     {onlyEval{client(safe)}, 1, "cannot"},
		"all of none":     {client(safe), redisranges.All, "no replica"},
		"a negative wish": {client(safe), -7, "a count"},
	} {
		_, err := redisranges.New(t.Context(), c.client, &redisranges.Options{Replicas: c.replicas})
		assert.True(t, err != nil, "%s is refused", name)
		assert.Contains(t, err.Error(), c.want, "%s", name)
	}
	_, err := redisranges.New(t.Context(), client(followed), &redisranges.Options{Replicas: 1})
	assert.NoError(t, err, "a file and a replica")
	var said bytes.Buffer
	_, err = redisranges.New(t.Context(), client(forgetful), &redisranges.Options{Unsafe: true, Logger: slog.New(slog.NewTextHandler(&said, nil))})
	assert.NoError(t, err, "Unsafe")
	assert.Contains(t, said.String(), "append-only", "the warning")
}

// TestRedisRangesFailover: the primary dies with ranges that no other server has. If replicas
// confirm ranges, no id is made twice. A tag that is gone is an error, and does not start again.
func TestRedisRangesFailover(t *testing.T) {
	t.Parallel()
	f := servers.RedisKinds[0].FailoverOfAPair(t, "--appendonly", "yes")
	open := func(replicaTime time.Duration) *redisranges.Ranges {
		r, err := redisranges.New(t.Context(), servers.RedisClients["rueidis"](t, f.URL), &redisranges.Options{Replicas: 1, ReplicaTime: replicaTime, Logger: slog.New(slog.DiscardHandler)})
		assert.NoError(t, err, "New")
		return r
	}
	r, impatient := open(time.Minute), open(100*time.Millisecond)
	_, err := r.Create(t.Context(), "order", 1, 10)
	assert.NoError(t, err, "Create")
	before, err := idgen.NewSegment(r, "order", &idgen.SegmentOptions{MaxStep: 10})
	assert.NoError(t, err, "segment")
	defer before.Close()
	made := map[idgen.ID]bool{}
	use := func(s *idgen.Segment, until func(err error) bool) {
		t.Helper()
		waits.Eventually(t, "ids are made", func() bool {
			id, err := s.Next(t.Context())
			if err == nil {
				assert.True(t, !made[id], "%d is made twice", id)
				made[id] = true
			}
			return until(err)
		})
	}
	use(before, func(error) bool { return len(made) >= 100 })
	f.Sever()
	// The primary raises its counter, and no replica confirms it.
	hasty, err := idgen.NewSegment(impatient, "order", &idgen.SegmentOptions{MaxStep: 10})
	assert.NoError(t, err, "segment")
	defer hasty.Close()
	use(hasty, func(err error) bool {
		if err != nil {
			assert.Contains(t, err.Error(), "0 of 1 replicas", "a range that no replica has")
		}
		return err != nil
	})
	f.Kill()
	f.Heal()
	n := len(made)
	use(before, func(error) bool { return len(made) >= n+100 })
	use(hasty, func(error) bool { return len(made) >= n+150 })
	after, err := idgen.NewSegment(open(time.Minute), "order", &idgen.SegmentOptions{MaxStep: 10})
	assert.NoError(t, err, "segment")
	defer after.Close()
	use(after, func(error) bool { return len(made) >= n+200 })

	lost, err := idgen.NewSegment(r, "lost", nil)
	assert.NoError(t, err, "segment")
	defer lost.Close()
	_, err = lost.Next(t.Context())
	assert.ErrorIs(t, err, idgen.ErrNoTag, "a tag that is not there")
	assert.True(t, !strings.Contains(err.Error(), "lost"), "no name in %v", err)
}

// TestRangesSettings: connections that would undo a range are refused, and servers that can lose
// one are warned of.
func TestRangesSettings(t *testing.T) {
	t.Parallel()
	dsn := servers.MySQLDatabase(t)
	r := rangesOn(t, sqlWorld{"mysql", dsn, sqlranges.MySQL}, nil)
	assert.NoError(t, r.Migrate(t.Context()), "Migrate")
	assert.NoError(t, createTag(t.Context(), r, "order", 1), "Create")
	_, _, err := rangesOn(t, sqlWorld{"mysql", dsn + "&autocommit=0", sqlranges.MySQL}, nil).Allocate(t.Context(), "order", 10)
	assert.Contains(t, fmt.Sprint(err), "autocommit", "a range that would be undone")
	first, _, err := r.Allocate(t.Context(), "order", 10)
	assert.NoError(t, err, "Allocate")
	assert.Equal(t, first, 1, "the first value")

	for name, w := range map[string]sqlWorld{
		// as all servers of these tests
		"fsync is off":     {"pgx", servers.PostgresDatabase(t), sqlranges.PostgreSQL},
		"synchronous is 1": {"sqlite", sqltest.SQLiteDSN(sqltest.NewFile(t), "synchronous(NORMAL)"), sqlranges.SQLite},
	} {
		var said bytes.Buffer
		r := rangesOn(t, w, &sqlranges.Options{Logger: slog.New(slog.NewTextHandler(&said, nil))})
		assert.NoError(t, r.Migrate(t.Context()), "Migrate")
		assert.Contains(t, said.String(), name, "the warning")
	}
}
