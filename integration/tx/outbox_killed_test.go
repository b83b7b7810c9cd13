package tx_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/integration/internal/child"
	"github.com/retrysafe/retrysafe/integration/internal/shops"
	"github.com/retrysafe/retrysafe/integration/internal/sqltest"
	"github.com/retrysafe/retrysafe/integration/internal/waits"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/outbox"
)

func init() {
	child.Parts["outbox relay"] = playRelay
	child.Parts["outbox adder"] = playAdder
}

// fileBroker is a broker that outlives processes: a file to which each message is appended by one
// write.
type fileBroker struct {
	path string
	hook func(run func() error) error // around each call; nil: none
}

func (b fileBroker) Publish(_ context.Context, batch []outbox.Outgoing) []error {
	errs := make([]error, len(batch))
	run := func() error {
		f, err := os.OpenFile(b.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		defer f.Close()
		for i, m := range batch {
			if m.Attempt == 1 && strings.HasSuffix(m.ID, "-flaky") {
				errs[i] = errors.New("not now")
				continue
			}
			if _, err := io.WriteString(f, m.Key+" "+m.ID+"\n"); err != nil {
				return err
			}
		}
		return nil
	}
	hook := b.hook
	if hook == nil {
		hook = func(run func() error) error { return run() }
	}
	if err := hook(run); err != nil {
		return each(batch, err)
	}
	return errs
}

// ids returns the ids of the messages of a key.
func (b fileBroker) ids(t *testing.T) func(key string) []string {
	t.Helper()
	text, err := os.ReadFile(b.path)
	if !errors.Is(err, os.ErrNotExist) {
		assert.NoError(t, err, "read what came")
	}
	all := map[string][]string{}
	for line := range strings.Lines(string(text)) {
		key, id, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		all[key] = append(all[key], id)
	}
	return func(key string) []string { return all[key] }
}

func dialectOf(driver string) outbox.Dialect {
	return map[string]outbox.Dialect{"sqlite": outbox.SQLite, "pgx": outbox.PostgreSQL, "mysql": outbox.MySQL}[driver]
}

// unhurried returns times with which a relay acquires all partitions, with a statement each, within
// a third of its lease, also on a busy machine.
func unhurried() *outbox.RelayOptions {
	o := hastyRelay()
	o.Lease = 20 * time.Second
	return o
}

// listOf is a list of parameters. How many messages a relay takes at once depends on timing, and
// must not make a different step.
var listOf = regexp.MustCompile(`IN \((?:\?|\$\d+)(?:, (?:\?|\$\d+))*\)`)

// pointRelay runs a relay whose driver calls the hook, until all messages are published and enough
// returns true.
func pointRelay(driver, dsn string, b fileBroker, enough func() bool, hook sqltest.Fault) error {
	s := shops.Database{Driver: driver, Dialect: dialectOf(driver), DSN: dsn}
	shop, set, err := s.FaultyShop()
	if err != nil {
		return err
	}
	defer shop.DB.Close()
	shop.DB.SetMaxOpenConns(4)
	box, err := outbox.New(shop.DB, s.Dialect, &outbox.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	var mu sync.Mutex // one fault at a time
	over := false     // database/sql may roll back slightly after the call has returned
	guarded := sqltest.Fault(func(step string, run func() error) error {
		mu.Lock()
		defer mu.Unlock()
		if over {
			return run()
		}
		return hook(listOf.ReplaceAllString(step, "IN (?)"), run)
	})
	set(guarded)
	b.hook = func(run func() error) error { return guarded("publish", run) }
	relay, err := outbox.NewRelay(box, b, unhurried())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), waits.Patience)
	defer cancel()
	go func() {
		waits.Until(ctx, func() bool {
			s, err := box.Stats(ctx)
			return err == nil && s.Pending == 0 && enough()
		})
		cancel()
	}()
	err = relay.Run(ctx)
	mu.Lock()
	defer mu.Unlock()
	over = true
	return err
}

// point is a step of a relay at which something happens.
type point struct {
	step  string
	n     int    // the nth time that the step occurs
	when  string // "before" or "after"
	atEnd bool   // the step occurs only when the relay is stopped
}

func (p point) String() string { return fmt.Sprintf("%s %s (%d)", p.when, p.step, p.n) }

// optional reports whether a relay may work without reaching the point.
func (p point) optional() bool { return p.n > 1 || p.step == "rollback" }

// struck returns a function that reports whether the point was reached. For a point that not every
// relay reaches, it returns true after some time.
func (p point) struck(met *atomic.Bool) func() bool {
	began := time.Now()
	return func() bool {
		return met.Load() || p.atEnd || p.optional() && time.Since(began) > 500*time.Millisecond
	}
}

// args are the point as arguments for a child; pointFrom parses them there.
func (p point) args() []string {
	return []string{p.step, fmt.Sprint(p.n), p.when, fmt.Sprint(p.atEnd)}
}

func pointFrom(args []string) (p point, err error) {
	p.step, p.when = args[0], args[2]
	if p.n, err = strconv.Atoi(args[1]); err == nil {
		p.atEnd, err = strconv.ParseBool(args[3])
	}
	return p, err
}

// playRelay publishes, and is killed at a point. Arguments: driver, DSN, file and the point.
// Without a point it continues until it is killed.
func playRelay(args []string) error {
	b := fileBroker{path: args[2]}
	if len(args) == 3 {
		db, err := sql.Open(args[0], args[1])
		if err != nil {
			return err
		}
		box, err := outbox.New(db, dialectOf(args[0]), &outbox.Options{Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			return err
		}
		relay, err := outbox.NewRelay(box, b, hastyRelay())
		if err != nil {
			return err
		}
		return relay.Run(context.Background())
	}
	p, err := pointFrom(args[3:])
	if err != nil {
		return err
	}
	seen := 0
	return pointRelay(args[0], args[1], b, p.struck(new(atomic.Bool)), func(step string, run func() error) error {
		if step != p.step {
			return run()
		}
		if seen++; seen != p.n {
			return run()
		}
		if p.when == "after" {
			_ = run()
		}
		child.Die()
		return nil
	})
}

// points returns the steps of a relay, how often each must be reached, and which occur only when it
// is stopped.
func points(t *testing.T, driver, dsn string, b fileBroker) (all []string, times map[string]int, atEnd map[string]bool) {
	t.Helper()
	times, atEnd = map[string]int{}, map[string]bool{}
	var renewed atomic.Bool
	err := pointRelay(driver, dsn, b, renewed.Load, func(step string, run func() error) error {
		if times[step]++; times[step] == 1 {
			all = append(all, step)
			atEnd[step] = renewed.Load()
		}
		if strings.Contains(step, "SET lease_end") {
			renewed.Store(true)
		}
		return run()
	})
	assert.NoError(t, err, "a relay")
	for step, n := range times {
		switch step {
		case "commit", "publish":
			times[step] = min(n, 2)
		default:
			times[step] = 1
		}
	}
	return all, times, atEnd
}

// relayStorm does something at each step of a relay, with messages waiting, and lets another relay
// finish.
func relayStorm(t *testing.T, a *shops.Shop, driver, dsn string, do func(b fileBroker, p point)) {
	t.Helper()
	box := newBox(t, a, nil)
	b := fileBroker{path: filepath.Join(t.TempDir(), "came")}
	all := &traffic{want: map[string][]string{}}
	round := 0
	add := func() {
		round++
		var messages []outbox.Message
		for _, key := range []string{"ada", "bob", "eve"} {
			for _, id := range []string{"1", "2-flaky", "3"} {
				m := outbox.Message{ID: fmt.Sprintf("%s-%d-%s", key, round, id), Topic: "orders", Key: key}
				messages = append(messages, m)
				all.want[key] = append(all.want[key], m.ID)
			}
		}
		send(t, a, box, messages...)
	}
	add()
	steps, times, atEnd := points(t, driver, dsn, b)
	assert.True(t, len(steps) > 15 && times["commit"] > 1 && times["publish"] > 0, "steps: %q", steps)
	repeats := 0
	for _, step := range steps {
		for n := 1; n <= times[step]; n++ {
			whens := []string{"before", "after"}
			if step != "commit" && step != "publish" && os.Getenv("RETRYSAFE_SOAK") != "long" {
				// Test one side of a fifth of the statements, others in each run: after a statement
				// is usually before the next.
				i := rand.IntN(2)
				whens = whens[i : i+rand.IntN(5)/4]
			}
			for _, when := range whens {
				add()
				p := point{step: step, n: n, when: when, atEnd: atEnd[step]}
				do(b, p)
				// Do not wait for the lease of the dead relay.
				published(t, func() bool {
					_, err := a.DB.ExecContext(t.Context(), "DELETE FROM retrysafe_outbox_relays")
					return err == nil
				}, "take the lease away")
				_, stop := runRelay(t, box, b, unhurried())
				published(t, func() bool { return pending(t, box) == 0 }, "all is published, %s", p)
				assert.NoError(t, stop(), "Run")
				again, err := all.check(b.ids(t))
				assert.NoError(t, err, "what came, %s", p)
				repeats = again
			}
		}
	}
	t.Logf("%d steps, %d messages, %d repeats, 0 lost", len(steps), round*9, repeats)
}

// eachRelayStorm runs relayStorm on each kind of database.
func eachRelayStorm(t *testing.T, do func(t *testing.T, driver, dsn string) func(b fileBroker, p point)) {
	t.Helper()
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		dsn := sqltest.SQLiteDSN(sqltest.NewFile(t))
		relayStorm(t, shops.New(t, sqltest.Open(t, "sqlite", dsn), nil), "sqlite", dsn, do(t, "sqlite", dsn))
	})
	shops.EachServer(t, func(t *testing.T, server shops.Database) {
		t.Helper()
		relayStorm(t, server.Shop(t), server.Driver, server.DSN, do(t, server.Driver, server.DSN))
	})
}

// TestOutboxRelayKilledAtAPoint: a relay that is killed before or after any statement or
// publication loses nothing, and each key is in order for consumers that drop duplicates.
func TestOutboxRelayKilledAtAPoint(t *testing.T) {
	t.Parallel()
	eachRelayStorm(t, func(t *testing.T, driver, dsn string) func(fileBroker, point) {
		t.Helper()
		return func(b fileBroker, p point) {
			dead := child.Start(t, "outbox relay", append([]string{driver, dsn, b.path}, p.args()...)...)
			assert.True(t, dead.Wait(t) || p.optional(), "the child was killed %s", p)
		}
	})
}

// TestOutboxRelayCutAtAPoint: if a statement fails or its reply is lost, the relay itself
// continues.
func TestOutboxRelayCutAtAPoint(t *testing.T) {
	t.Parallel()
	eachRelayStorm(t, func(t *testing.T, driver, dsn string) func(fileBroker, point) {
		t.Helper()
		return func(b fileBroker, p point) {
			seen := 0
			var met atomic.Bool
			err := pointRelay(driver, dsn, b, p.struck(&met), func(at string, run func() error) error {
				if at != p.step {
					return run()
				}
				if seen++; seen != p.n {
					return run()
				}
				met.Store(true)
				if p.when == "after" {
					return errors.Join(run(), sqltest.ErrCut)
				}
				return sqltest.ErrCut
			})
			// It may be the first check of the tables.
			assert.True(t, err == nil || errors.Is(err, sqltest.ErrCut), "Run, cut %s: %v", p, err)
			assert.True(t, met.Load() || p.optional(), "the relay came to the point: %s", p)
		}
	})
}

// playAdder adds messages until it is killed, and reports each that was committed. Arguments:
// driver, DSN, key.
func playAdder(args []string) error {
	db, err := sql.Open(args[0], args[1])
	if err != nil {
		return err
	}
	box, err := outbox.New(db, dialectOf(args[0]), nil)
	if err != nil {
		return err
	}
	for i := 0; ; {
		id := fmt.Sprintf("%s-%d", args[2], i)
		if err := trySend(context.Background(), db, box, outbox.Message{ID: id, Topic: "orders", Key: args[2]}); err != nil {
			if args[0] == "sqlite" {
				continue
			}
			return err
		}
		fmt.Println(id)
		i++
	}
}

// soakOutbox kills adders and relays, again and again at any point.
func soakOutbox(t *testing.T, a *shops.Shop, driver, dsn string) {
	t.Helper()
	rounds := 4
	if os.Getenv("RETRYSAFE_SOAK") == "long" {
		rounds = 200
	}
	box := newBox(t, a, nil)
	b := fileBroker{path: filepath.Join(t.TempDir(), "came")}
	startRelay := func() *child.Process { return child.Start(t, "outbox relay", driver, dsn, b.path) }
	relays := []*child.Process{startRelay(), startRelay()}
	told, unsure := 0, 0
	for round := range rounds {
		var adders []*child.Process
		for k := range 3 {
			adders = append(adders, child.Start(t, "outbox adder", driver, dsn, fmt.Sprintf("r%d-k%d", round, k)))
		}
		ids := make([][]string, len(adders))
		var all sync.WaitGroup
		var failed atomic.Bool
		for k, c := range adders {
			all.Go(func() {
				for range 10 + rand.IntN(20) {
					id, ok := c.Read()
					if !ok {
						failed.Store(true)
						return
					}
					ids[k] = append(ids[k], id)
				}
				_ = c.Cmd.Process.Kill()
				for id, ok := c.Read(); ok; id, ok = c.Read() {
					ids[k] = append(ids[k], id) // it was in flight
				}
			})
		}
		victim := rand.IntN(len(relays))
		assert.NoError(t, relays[victim].Cmd.Process.Kill(), "kill a relay")
		assert.True(t, relays[victim].Wait(t), "a relay was killed")
		relays[victim] = startRelay()
		all.Wait()
		assert.True(t, !failed.Load(), "the adders go on: %s", adders[0].Stderr.String())
		for _, c := range adders {
			assert.True(t, c.Wait(t), "an adder was killed")
		}
		published(t, func() bool { return pending(t, box) == 0 }, "all is published")
		came := b.ids(t)
		for k, want := range ids {
			key := fmt.Sprintf("r%d-k%d", round, k)
			once, _ := firsts(came(key))
			told += len(want)
			// The message in flight may have been committed; it was not reported.
			if len(once) == len(want)+1 && once[len(want)] == fmt.Sprintf("%s-%d", key, len(want)) {
				unsure++
				once = once[:len(want)]
			}
			assert.Equal(t, strings.Join(once, " "), strings.Join(want, " "), "what came of %s", key)
		}
	}
	for _, c := range relays {
		_ = c.Cmd.Process.Kill()
	}
	text, err := os.ReadFile(b.path)
	assert.NoError(t, err, "read what came")
	t.Logf("%d rounds, %d messages, %d more of which nobody was told, %d repeats, 0 lost, 0 out of order", rounds, told, unsure,
		strings.Count(string(text), "\n")-told-unsure)
}

// TestSoakOutbox is the form of TestOutboxRelayKilledAtAPoint that finds unforeseen points.
func TestSoakOutbox(t *testing.T) {
	t.Parallel()
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		dsn := sqltest.SQLiteDSN(sqltest.NewFile(t))
		soakOutbox(t, shops.New(t, sqltest.Open(t, "sqlite", dsn), nil), "sqlite", dsn)
	})
	shops.EachServer(t, func(t *testing.T, server shops.Database) {
		t.Helper()
		soakOutbox(t, server.Shop(t), server.Driver, server.DSN)
	})
}
