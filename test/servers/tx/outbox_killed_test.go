package tx_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/outbox"
	"github.com/retrysafe/retrysafe/test/servers/internal/child"
	"github.com/retrysafe/retrysafe/test/servers/internal/shops"
	"github.com/retrysafe/retrysafe/test/servers/internal/sqltest"
)

func init() {
	child.Parts["outbox relay"] = playRelay
	child.Parts["outbox adder"] = playAdder
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
	return pointRelay(args[0], args[1], b, p.wasReached(new(atomic.Bool)), func(step string, run func() error) error {
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

// relayPoints returns the steps of a relay, how often each must be reached, and which occur only
// when it is stopped.
func relayPoints(t *testing.T, driver, dsn string, b fileBroker) (all []string, times map[string]int, atEnd map[string]bool) {
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
		addMessages(t, a, box, messages...)
	}
	add()
	steps, times, atEnd := relayPoints(t, driver, dsn, b)
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
				awaitPublished(t, func() bool {
					_, err := a.DB.ExecContext(t.Context(), "DELETE FROM retrysafe_outbox_relays")
					return err == nil
				}, "take the lease away")
				_, stop := runRelay(t, box, b, unhurriedTimes())
				awaitPublished(t, func() bool { return countPending(t, box) == 0 }, "all is published, %s", p)
				assert.NoError(t, stop(), "Run")
				again, err := all.checkOrder(b.idsOf(t))
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
	shops.EachKindOfServer(t, func(t *testing.T, server shops.Database) {
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
			assert.True(t, dead.Wait(t) || p.isOptional(), "the child was killed %s", p)
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
			err := pointRelay(driver, dsn, b, p.wasReached(&met), func(at string, run func() error) error {
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
			assert.True(t, met.Load() || p.isOptional(), "the relay came to the point: %s", p)
		}
	})
}
