package locks_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/adapters/rueidisclient"
	"github.com/retrysafe/retrysafe/guard"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/lock"
	"github.com/retrysafe/retrysafe/lock/redislock"
	"github.com/retrysafe/retrysafe/redisclient"
	"github.com/retrysafe/retrysafe/stores/sqlstore/dbtx"
	"github.com/retrysafe/retrysafe/test/servers/internal/child"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
	"github.com/retrysafe/retrysafe/test/servers/internal/sqltest"
	"github.com/retrysafe/retrysafe/test/servers/internal/waits"
)

const lockLease = 300 * time.Millisecond

func init() { child.Parts["lock-holder"] = holdLocks }

// holdLocks acquires one lock again and again, and writes with its fence to two tables of a SQLite
// file: one that guard.Fence guards, and one that accepts everything. It writes after up to a lease
// of work, without checking that it still holds the lock.
func holdLocks(args []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	a, err := redisclient.ParseURL(args[0])
	if err != nil {
		return err
	}
	var client *rueidisclient.Client
	var backend *redislock.Backend
	for ctx.Err() == nil && backend == nil { // the server may be unreachable
		if client, err = rueidisclient.Open(a); err != nil {
			time.Sleep(10 * time.Millisecond)
			continue
		}
		defer client.Close()
		backend, _ = redislock.New(ctx, client, nil)
	}
	db, err := sql.Open("sqlite", sqltest.SQLiteDSN(args[1], "busy_timeout(10000)")+"&_txlock=immediate")
	if err != nil {
		return err
	}
	defer db.Close()
	locks := lock.New(backend, &lock.Options{Lease: lockLease})
	fence := guard.Fence{Table: "account", ID: "id", Column: "fence"}
	for ctx.Err() == nil {
		held, err := locks.Lock(ctx, "account/1")
		if err != nil {
			time.Sleep(10 * time.Millisecond)
			continue
		}
		time.Sleep(rand.N(lockLease))
		if err := writeFenced(db, &fence, held.Fence()); err != nil {
			return err
		}
		_ = held.Release(ctx)
	}
	return nil
}

func writeFenced(db *sql.DB, fence *guard.Fence, f retrysafe.Fence) error {
	ctx := context.Background()
	if _, err := db.ExecContext(ctx, `INSERT INTO plain (fence) VALUES (?)`, int64(f)); err != nil {
		return err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	switch err := fence.Check(ctx, dbtx.SQL(tx, dbtx.SQLite), 1, f); {
	case errors.Is(err, guard.ErrFenced):
		return nil
	case err != nil:
		return err
	}
	if _, err := tx.ExecContext(ctx, `INSERT INTO guarded (fence) VALUES (?)`, int64(f)); err != nil {
		return err
	}
	return tx.Commit()
}

// countStale counts the writes to a table, and those that came after one with a greater fence.
func countStale(t *testing.T, db *sql.DB, table string) (writes, stale int) {
	t.Helper()
	err := db.QueryRowContext(t.Context(), `SELECT COUNT(*), COALESCE(SUM(fence < before), 0) FROM
		(SELECT fence, MAX(fence) OVER (ORDER BY seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before FROM `+table+`)`).Scan(&writes, &stale)
	assert.NoError(t, err, "count")
	return writes, stale
}

// TestSoakLockStaleWrites: four processes share a lock while they are stopped past its lease and
// killed, and while the server is killed and restarts with its clock an hour ahead. The fence
// refuses every write of a holder that has lost the lock. Without the fence these writes would be
// applied.
func TestSoakLockStaleWrites(t *testing.T) {
	t.Parallel()
	rounds := 5
	if waits.LongSoak() {
		rounds = 500
	}
	path, dir := sqltest.NewFile(t), t.TempDir()
	db := sqltest.Open(t, "sqlite", sqltest.SQLiteDSN(path))
	sqltest.Exec(t, db, `CREATE TABLE account (id INTEGER PRIMARY KEY, fence BIGINT)`)
	sqltest.Exec(t, db, `INSERT INTO account (id) VALUES (1)`)
	for _, table := range []string{"plain", "guarded"} {
		sqltest.Exec(t, db, `CREATE TABLE `+table+` (seq INTEGER PRIMARY KEY AUTOINCREMENT, fence BIGINT NOT NULL)`)
	}
	server := servers.RedisKinds[0].New(t)
	server.Start(t, dir, persistent...)
	holders := make([]*child.Process, 4)
	for i := range holders {
		holders[i] = child.Start(t, "lock-holder", "redis://"+server.Addr, path)
	}
	for n, late := 0, 0; n < rounds || late == 0 && n < 20*rounds; n++ {
		i := rand.IntN(len(holders))
		switch n % 5 {
		default:
			// Stop all but one for two leases, and so most likely the one that has the lock.
			for _, signal := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGCONT} {
				for k, h := range holders {
					if k != i {
						assert.NoError(t, h.Cmd.Process.Signal(signal), "%v", signal)
					}
				}
				time.Sleep(2 * lockLease)
			}
			_, late = countStale(t, db, "plain")
		case 3:
			assert.NoError(t, holders[i].Cmd.Process.Kill(), "kill")
			assert.True(t, holders[i].Wait(t), "it was killed")
			holders[i] = child.Start(t, "lock-holder", "redis://"+server.Addr, path)
		case 4:
			server.Murder()
			server.Shift += time.Hour
			server.Start(t, dir, persistent...)
		}
	}
	for _, h := range holders {
		assert.NoError(t, h.Cmd.Process.Signal(syscall.SIGTERM), "end")
		h.Wait(t)
	}
	writes, late := countStale(t, db, "plain")
	kept, let := countStale(t, db, "guarded")
	t.Logf("%d writes, %d of holders that had lost the lock; with the fence %d and %d", writes, late, kept, let)
	assert.True(t, late > 0, "a lock alone lets stale writes in, or the test shows nothing")
	assert.Equal(t, let, 0, "stale writes past the fence")
	assert.True(t, kept > rounds && kept <= writes-late, "others are let in, and the lock goes on: %d writes", kept)
}

// TestRedisLockFencesGrow: fences grow also if the server's clock goes back by an hour.
func TestRedisLockFencesGrow(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	server := servers.RedisKinds[0].New(t)
	server.Shift = time.Hour
	var last retrysafe.Fence
	for range 2 {
		server.Start(t, dir, persistent...)
		b, err := redislock.New(t.Context(), servers.RueidisTo(t, server.Addr), nil)
		assert.NoError(t, err, "New")
		held, err := lock.New(b, nil).Lock(t.Context(), "x")
		assert.NoError(t, err, "Lock")
		assert.True(t, held.Fence() > last, "fence %d behind %d", held.Fence(), last)
		last = held.Fence()
		assert.NoError(t, held.Release(t.Context()), "Release")
		server.Murder()
		server.Shift = 0
	}
}

// TestRedisLockForgetsNames: a name is kept for minutes after its release, and its fence for ever.
// Also after the name is gone and the clock went back by an hour, the next fence is greater.
func TestRedisLockForgetsNames(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	server := servers.RedisKinds[0].New(t)
	server.Shift = time.Hour
	last := map[string]retrysafe.Fence{}
	names := []string{"x", "{a}y", "account/42", "a b"}
	for round := range 2 {
		server.Start(t, dir, persistent...)
		b, err := redislock.New(t.Context(), servers.RueidisTo(t, server.Addr), nil)
		assert.NoError(t, err, "New")
		for _, name := range names {
			held, err := lock.New(b, nil).Lock(t.Context(), name)
			assert.NoError(t, err, "Lock")
			assert.True(t, held.Fence() > last[name], "%q, round %d: fence %d after %d", name, round, held.Fence(), last[name])
			last[name] = held.Fence()
			assert.NoError(t, held.Release(t.Context()), "Release")
			left, err := strconv.ParseInt(servers.RedisDo(server.Addr, "PTTL", "rs:lock:"+name), 10, 64)
			assert.True(t, err == nil && left > 0 && left <= 5*60*1000, "%q is kept for %d ms (%v)", name, left, err)
			assert.Equal(t, servers.RedisDo(server.Addr, "DEL", "rs:lock:"+name), "1", "as if five minutes had passed")
		}
		server.Murder()
		server.Shift = 0
	}
}

// TestRedisLockLostOnce loses the request or the reply of a lock and of its release. The locker
// recovers what it can, no two hold the lock at once, and it is free in the end.
func TestRedisLockLostOnce(t *testing.T) {
	t.Parallel()
	server := servers.RedisKinds[0].Shared.Get(t)
	for adapter := range servers.RedisClients {
		for _, loss := range servers.Losses {
			for _, script := range []string{"lock", "unlock"} {
				t.Run(fmt.Sprint(adapter, " ", loss.Name, " of ", script), func(t *testing.T) {
					t.Parallel()
					proxy := servers.StartRedisProxy(t, server.Addr)
					o := &redislock.Options{Prefix: servers.RedisPrefix()}
					b, err := redislock.New(t.Context(), proxy.Through(t, adapter), o)
					assert.NoError(t, err, "New")
					shaken := lock.New(b, nil)
					plain, err := redislock.New(t.Context(), servers.RueidisTo(t, server.Addr), o)
					assert.NoError(t, err, "New")
					others := lock.New(plain, nil)
					// The server must know the scripts.
					before, err := shaken.Lock(t.Context(), "before")
					assert.NoError(t, err, "Lock")
					assert.NoError(t, before.Release(t.Context()), "Release")
					calls, cuts := 0, 0
					proxy.SetHook(func(name string, _ int) servers.Cut {
						if calls++; cuts > 0 || name != script {
							return 0
						}
						cuts++
						return loss.Cut
					})
					held, err := shaken.Lock(t.Context(), "x")
					assert.NoError(t, err, "Lock")
					_, err = others.TryLock(t.Context(), "x")
					assert.ErrorIs(t, err, lock.ErrHeld, "TryLock of another")
					assert.NoError(t, held.Err(), "it is held")
					assert.NoError(t, held.Release(t.Context()), "Release")
					proxy.SetHook(nil)
					assert.Equal(t, cuts, 1, "cuts of %d calls", calls)
					next, err := others.TryLock(t.Context(), "x")
					assert.NoError(t, err, "TryLock of another, behind the release")
					assert.True(t, next.Fence() > held.Fence(), "the fence grows")
					assert.NoError(t, next.Release(t.Context()), "Release")
				})
			}
		}
	}
}

// TestSoakRedisLockCut: random calls are cut off, before or after the server got them. No two hold
// the lock at once, and what a cut has left is gone after a lease at the latest.
func TestSoakRedisLockCut(t *testing.T) {
	t.Parallel()
	cuts := 60
	if waits.LongSoak() {
		cuts = 1000
	}
	server := servers.StartRedis(t)
	for adapter := range servers.RedisClients {
		t.Run(adapter, func(t *testing.T) {
			t.Parallel()
			proxy := servers.StartRedisProxy(t, server.Addr)
			random := rand.New(rand.NewPCG(1, 2))
			proxy.SetHook(func(string, int) servers.Cut {
				return []servers.Cut{0, 0, servers.LoseRequest, servers.LoseReply}[random.IntN(4)]
			})
			b, err := redislock.New(t.Context(), proxy.Through(t, adapter), &redislock.Options{Prefix: adapter})
			assert.NoError(t, err, "New")
			shaken := lock.New(b, &lock.Options{Lease: lockLease})
			plain, err := redislock.New(t.Context(), servers.RueidisTo(t, server.Addr), &redislock.Options{Prefix: adapter})
			assert.NoError(t, err, "New")
			others := lock.New(plain, nil)
			had := 0
			for n := range cuts {
				name := fmt.Sprint("x/", n)
				ctx, cancel := context.WithTimeout(t.Context(), lockLease)
				if held, err := shaken.Lock(ctx, name); err == nil {
					had++
					if beside, err := others.TryLock(t.Context(), name); err == nil {
						// The test was delayed for a lease.
						assert.True(t, held.Err() != nil && beside.Fence() > held.Fence(), "another one beside the holder")
						assert.NoError(t, beside.Release(t.Context()), "Release")
					}
					_ = held.Release(ctx)
				}
				cancel()
				wait, cancel := context.WithTimeout(t.Context(), waits.Patience)
				left, err := others.Lock(wait, name)
				cancel()
				assert.NoError(t, err, "what the cut has left behind")
				assert.NoError(t, left.Release(t.Context()), "Release")
			}
			assert.True(t, had > 0, "no lock came through")
			t.Logf("%d of %d locks came through", had, cuts)
		})
	}
}

// TestRedisLockLostPass loses the request or the reply of a release that gives the lock to the next
// caller of the process. Both callers get what they asked for, and no third one gets in between.
func TestRedisLockLostPass(t *testing.T) {
	t.Parallel()
	server := servers.RedisKinds[0].Shared.Get(t)
	for adapter := range servers.RedisClients {
		for _, loss := range servers.Losses {
			t.Run(fmt.Sprint(adapter, " ", loss.Name), func(t *testing.T) {
				t.Parallel()
				proxy := servers.StartRedisProxy(t, server.Addr)
				o := &redislock.Options{Prefix: servers.RedisPrefix()}
				b, err := redislock.New(t.Context(), proxy.Through(t, adapter), o)
				assert.NoError(t, err, "New")
				plain, err := redislock.New(t.Context(), servers.RueidisTo(t, server.Addr), o)
				assert.NoError(t, err, "New")
				shaken, others := lock.New(b, nil), lock.New(plain, nil)
				passLock(t, shaken, others, "before") // then the server knows the scripts
				passes := 0
				proxy.SetHook(func(name string, _ int) servers.Cut {
					if name != "pass" {
						return 0
					}
					if passes++; passes > 1 {
						return 0
					}
					return loss.Cut
				})
				passLock(t, shaken, others, "x")
				proxy.SetHook(nil)
				assert.Equal(t, passes, 2, "the pass was sent again")
			})
		}
	}
}

// passLock has two callers of a locker, the first of which passes the lock to the second.
func passLock(t *testing.T, l, others *lock.Locker, name string) {
	t.Helper()
	first, err := l.Lock(t.Context(), name)
	assert.NoError(t, err, "Lock")
	next := make(chan *lock.Lock, 1)
	ctx := &waitedOn{Context: t.Context(), waits: make(chan struct{})}
	go func() {
		held, err := l.Lock(ctx, name)
		assert.NoError(t, err, "Lock of the next one")
		next <- held
	}()
	<-ctx.waits
	assert.NoError(t, first.Release(t.Context()), "Release")
	held := <-next
	assert.True(t, held.Fence() > first.Fence(), "the fence grows")
	_, err = others.TryLock(t.Context(), name)
	assert.ErrorIs(t, err, lock.ErrHeld, "TryLock of another")
	assert.NoError(t, held.Release(t.Context()), "Release of the next one")
	after, err := others.TryLock(t.Context(), name)
	assert.NoError(t, err, "TryLock of another, after the release")
	assert.True(t, after.Fence() > held.Fence(), "the fence grows")
	assert.NoError(t, after.Release(t.Context()), "Release")
}

// waitedOn is a context that notices when a call begins to wait for its end.
type waitedOn struct {
	context.Context
	once  sync.Once
	waits chan struct{}
}

func (w *waitedOn) Done() <-chan struct{} {
	w.once.Do(func() { close(w.waits) })
	return w.Context.Done()
}
