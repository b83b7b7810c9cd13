package locks_test

import (
	"bufio"
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/adapters/rueidisclient"
	"github.com/retrysafe/retrysafe/adapters/zklock"
	"github.com/retrysafe/retrysafe/idgen"
	"github.com/retrysafe/retrysafe/idgen/sqlranges"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/redisclient"
	"github.com/retrysafe/retrysafe/stores/redisstore"
	"github.com/retrysafe/retrysafe/stores/sqlstore"
	"github.com/retrysafe/retrysafe/test/servers/internal/child"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
	"github.com/retrysafe/retrysafe/test/servers/internal/teststores"
	"github.com/retrysafe/retrysafe/test/servers/internal/waits"
)

func init() { child.Parts["ids"] = playIDs }

// childLease is short, so that numbers of killed processes are free again within the test.
const childLease = time.Second

// playIDs makes ids until it is killed. Arguments: worker or segment, the address of Redis,
// PostgreSQL or ZooKeeper, and how long it pauses after each batch. It reports each row of ids, and
// each number that it has claimed.
func playIDs(args []string) error {
	ctx := context.Background()
	rest, err := time.ParseDuration(args[2])
	if err != nil {
		return err
	}
	if args[0] == "segment" {
		db, err := sql.Open("pgx", args[1])
		if err != nil {
			return err
		}
		ranges, err := sqlranges.New(db, sqlranges.PostgreSQL, nil)
		if err != nil {
			return err
		}
		s, err := idgen.NewSegment(ranges, "order", &idgen.SegmentOptions{MaxStep: 20_000})
		if err != nil {
			return err
		}
		return tellIDs(ctx, s, rest)
	}
	workers, err := idsWorkers(ctx, args[1])
	if err != nil {
		return err
	}
	for {
		held, err := workers.Claim(ctx)
		switch {
		case errors.Is(err, idgen.ErrNoWorker), errors.Is(err, idgen.ErrClockOff):
			// Too many processes were killed just now, or this process was stopped in between.
			continue
		case err != nil && strings.HasPrefix(args[1], "zookeeper:"):
			// The client reconnects after a pause that has ended its session.
			<-time.After(20 * time.Millisecond)
			continue
		case err != nil:
			return err
		}
		fmt.Println("held", held.Number(), uint64(held.Fence()))
		g, err := idgen.NewSnowflake(held, nil)
		if err != nil {
			return err
		}
		if err := tellIDs(ctx, g, rest); !errors.Is(err, idgen.ErrReserved) {
			return err
		}
		_ = held.Release(ctx) // it is lost
	}
}

func idsWorkers(ctx context.Context, addr string) (*idgen.Workers, error) {
	quiet, o := slog.New(slog.DiscardHandler), &idgen.WorkersOptions{Max: 20, Lease: childLease, Unsafe: true}
	switch {
	case strings.HasPrefix(addr, "zookeeper:"):
		b, err := zklock.Open(ctx, []string{strings.TrimPrefix(addr, "zookeeper:")}, &zklock.Options{Session: childLease, Logger: quiet})
		if err != nil {
			return nil, err
		}
		return zklock.NewWorkers(b, o), nil
	case strings.HasPrefix(addr, "redis:"):
		a, err := redisclient.ParseURL(addr)
		if err != nil {
			return nil, err
		}
		c, err := rueidisclient.Open(a)
		if err != nil {
			return nil, err
		}
		s, err := redisstore.New(ctx, c, &redisstore.Options{Logger: quiet})
		if err != nil {
			return nil, err
		}
		return idgen.NewWorkers(s, o), nil
	}
	db, err := sql.Open("pgx", addr)
	if err != nil {
		return nil, err
	}
	s, err := sqlstore.New(db, sqlstore.PostgreSQL, &sqlstore.Options{Logger: quiet})
	if err != nil {
		return nil, err
	}
	return idgen.NewWorkers(s, o), nil
}

// tellIDs makes ids and prints their rows, first and count, as soon as a batch is ready.
func tellIDs(ctx context.Context, g interface {
	NextN(context.Context, int) ([]idgen.ID, error)
}, rest time.Duration,
) error {
	out := bufio.NewWriter(os.Stdout)
	for {
		ids, err := g.NextN(ctx, 1+rand.IntN(4000))
		if err != nil {
			return err
		}
		for len(ids) > 0 {
			n := 1
			for n < len(ids) && ids[n] == ids[0]+idgen.ID(n) {
				n++
			}
			fmt.Fprintln(out, int64(ids[0]), n)
			ids = ids[n:]
		}
		if err := out.Flush(); err != nil {
			return err
		}
		if rest > 0 {
			<-time.After(rand.N(2 * rest))
		}
	}
}

// row is a range of consecutive ids.
type row struct {
	first int64
	count int64
}

// crowd is sixteen processes that make ids.
type crowd struct {
	t     *testing.T
	args  []string
	mu    sync.Mutex
	rows  []row
	held  map[string][]uint64 // the fences of each number
	again int                 // claims of numbers that had a holder before
	made  atomic.Int64
	ends  sync.WaitGroup
}

func (c *crowd) startProcess() *child.Process {
	p := child.Start(c.t, "ids", c.args...)
	c.ends.Go(func() {
		for {
			line, ok := p.Read()
			if !ok {
				_ = p.Cmd.Wait()
				return
			}
			c.noteLine(line)
		}
	})
	return p
}

// waitsForReclaim reports whether no process has yet claimed a number that another one had before.
// Such claims show most.
func (c *crowd) waitsForReclaim() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.held) > 0 && c.again == 0
}

func (c *crowd) noteLine(line string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var number string
	var fence uint64
	if n, _ := fmt.Sscanf(line, "held %s %d", &number, &fence); n == 2 {
		if len(c.held[number]) > 0 {
			c.again++
		}
		// A process that was paused after its claim reports it late.
		assert.True(c.t, !slices.Contains(c.held[number], fence), "number %s has fence %d twice", number, fence)
		c.held[number] = append(c.held[number], fence)
		return
	}
	var r row
	if n, _ := fmt.Sscan(line, &r.first, &r.count); n != 2 { // cut off by the end of the process
		return
	}
	c.rows = append(c.rows, r)
	c.made.Add(r.count)
}

// countRepeats returns how many ids were made twice.
func (c *crowd) countRepeats() (n int64) {
	slices.SortFunc(c.rows, func(a, b row) int { return cmp.Compare(a.first, b.first) })
	end := int64(0)
	for _, r := range c.rows {
		if r.first < end {
			n += min(end, r.first+r.count) - r.first
		}
		end = max(end, r.first+r.count)
	}
	return n
}

// runCrowd kills and stops processes until there are enough ids and kills.
func runCrowd(t *testing.T, ids int64, kills int, args ...string) *crowd {
	t.Helper()
	c := &crowd{t: t, args: args, held: map[string][]uint64{}}
	all := make([]*child.Process, 16)
	for i := range all {
		all[i] = c.startProcess()
	}
	killed, stopped := 0, 0
	// Processes that were paused continue for a while, beside the next holder of their number.
	spared := make([]time.Time, len(all))
	for c.made.Load() < ids || killed < kills || stopped < kills/4 || c.waitsForReclaim() && killed < 20*kills {
		<-time.After(rand.N(100 * time.Millisecond))
		i := rand.IntN(len(all))
		p := all[i]
		switch {
		case time.Now().Before(spared[i]):
		case rand.IntN(3) == 0: // past its lease
			stopped++
			pause := childLease + rand.N(childLease)
			spared[i] = time.Now().Add(pause + childLease)
			_ = p.Cmd.Process.Signal(syscall.SIGSTOP)
			time.AfterFunc(pause, func() { _ = p.Cmd.Process.Signal(syscall.SIGCONT) })
		default:
			killed++
			_ = p.Cmd.Process.Kill()
			all[i] = c.startProcess()
		}
	}
	for _, p := range all {
		_ = p.Cmd.Process.Kill()
	}
	c.ends.Wait()
	t.Logf("%d ids in %d rows; %d processes killed, %d stopped; %d claims of numbers that were held before", c.made.Load(), len(c.rows), killed, stopped, c.again)
	assert.Equal(t, c.countRepeats(), 0, "ids that were made twice")
	return c
}

// TestSoakIDsOfManyProcesses: sixteen processes make ids, are killed and stopped at any point, and
// start again: no id is made twice. The long form makes a hundred million with each source.
func TestSoakIDsOfManyProcesses(t *testing.T) { //nolint:tparallel // sixteen processes are enough at one time
	t.Parallel()
	ids, kills, rest := int64(1_000_000), 16, "8ms"
	if waits.LongSoak() {
		ids, kills, rest = 100_000_000, 200, "0s"
	}
	redis, url := "redis://"+servers.StartRedis(t).Addr, servers.PostgresDatabase(t)
	_, _ = teststores.Postgres(t, url, nil) // creates the tables
	ranges := rangesOn(t, sqlWorld{"pgx", url, sqlranges.PostgreSQL}, nil)
	assert.NoError(t, ranges.Migrate(t.Context()), "Migrate")
	_, err := ranges.Create(t.Context(), "order", 1, 1000)
	assert.NoError(t, err, "Create")
	for _, c := range []struct{ name, part, addr string }{
		{"workers on Redis", "worker", redis},
		{"workers on PostgreSQL", "worker", url},
		{"workers on ZooKeeper", "worker", "zookeeper:" + servers.SharedZooKeeper.Get(t).Addr},
		{"segments on PostgreSQL", "segment", url},
	} {
		t.Run(c.name, func(t *testing.T) { //nolint:paralleltest // sixteen processes are enough at one time
			got := runCrowd(t, ids, kills, c.part, c.addr, rest)
			if c.part == "worker" {
				assert.True(t, len(got.held) >= 8 && got.again > 0, "%d numbers were held, and %d times again", len(got.held), got.again)
			}
		})
	}
}

// TestSoakIDsOfOneProcess: ids of one caller grow, so none is made twice. The long form makes a
// thousand million.
func TestSoakIDsOfOneProcess(t *testing.T) {
	t.Parallel()
	n := 5_000_000
	if waits.LongSoak() {
		n = 1_000_000_000
	}
	workers := idgen.NewWorkers(teststores.Redis(t, servers.RedisClients["rueidis"](t, "redis://"+servers.StartRedis(t).Addr), nil), &idgen.WorkersOptions{Max: 64, Layout: idgen.Fast(), Unsafe: true})
	held, err := workers.Claim(t.Context())
	assert.NoError(t, err, "Claim")
	g, err := idgen.NewSnowflake(held, nil)
	assert.NoError(t, err, "generator")
	b := idgen.NewBuffered(g)
	last := idgen.ID(0)
	begun := time.Now()
	for range n {
		id, err := b.Next(t.Context())
		if err != nil || id <= last {
			t.Fatalf("%d follows %d (%v)", id, last, err)
		}
		last = id
	}
	t.Logf("%d ids in %v", n, time.Since(begun).Round(time.Millisecond))
	assert.NoError(t, held.Release(t.Context()), "Release")
}
