package tx_test

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/outbox"
	"github.com/retrysafe/retrysafe/test/servers/internal/child"
	"github.com/retrysafe/retrysafe/test/servers/internal/shops"
	"github.com/retrysafe/retrysafe/test/servers/internal/sqltest"
)

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
		awaitPublished(t, func() bool { return countPending(t, box) == 0 }, "all is published")
		came := b.idsOf(t)
		for k, want := range ids {
			key := fmt.Sprintf("r%d-k%d", round, k)
			once, _ := removeRepeats(came(key))
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
