package brokers_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/mqidem"
	"github.com/retrysafe/retrysafe/outbox"
	"github.com/retrysafe/retrysafe/stores/sqlstore"
)

// messageCount returns how many messages are published, each one to three times.
func messageCount() int {
	if os.Getenv("RETRYSAFE_SOAK") == "long" {
		return 20_000
	}
	return 300
}

// TestSoakOnceTx: messages are published up to three times, consumers are killed, connections are
// cut, the broker is killed and restarted, one handler fails and one outlives its lease. Every
// effect happens exactly once, nothing is lost, and the dead letters had used up their tries.
func TestSoakOnceTx(t *testing.T) {
	t.Parallel()
	b := startStores(t)
	for name := range kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSoak(t, b, name, "tx")
			s.runSoak(t)
			for id, n := range s.queryCounts(t, "SELECT id, count(*) FROM effects GROUP BY id") {
				assert.Equal(t, n, 1, "effects of message %s", id)
			}
		})
	}
}

// TestSoakOnce is the same with the records in Redis. Nothing is lost. If an effect happened twice,
// its first consumer was killed or lost its lease between the effect and its record.
func TestSoakOnce(t *testing.T) {
	t.Parallel()
	b := startStores(t)
	for name := range kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSoak(t, b, name, "redis")
			s.runSoak(t)
			doubles := 0
			for _, n := range s.queryCounts(t, "SELECT id, count(*) FROM effects GROUP BY id") {
				doubles += n - 1
			}
			for id, n := range s.queryCounts(t, "SELECT id, count(*) FROM outcomes WHERE what = 'done' GROUP BY id") {
				assert.Equal(t, n, 1, "how often message %s was done, by its record", id)
			}
			// Of consumers that were neither killed nor late, each message has at most one effect.
			alive := "SELECT id, count(*) FROM effects WHERE NOT late AND NOT pid = ANY($1) GROUP BY id"
			for id, n := range s.queryCounts(t, alive, s.pids) {
				assert.Equal(t, n, 1, "effects of message %s by consumers that lived and kept their leases", id)
			}
			t.Logf("%d messages: %d effects happened again; from an effect to its record: %s", messageCount(), doubles, s.windows)
		})
	}
}

// soak is one run.
type soak struct {
	kind
	broker *broker
	args   []string // of consumers
	db     *sql.DB
	engine *retrysafe.Engine
	layer  string // of the records
	bad    map[string]bool
	good   []string

	journal *journal
	fail    context.CancelCauseFunc // ends the run
	windows *sample
	killed  int
	pids    []int32 // of those
	cuts    int
	// restarts counts those of the broker.
	restarts int
}

func newSoak(t *testing.T, stores *stores, name, mode string) *soak {
	t.Helper()
	s := &soak{kind: kinds[name], bad: map[string]bool{}, windows: new(sample)}
	postgres, redis := stores.newDatabases(t)
	s.broker = s.start(t)
	var err error
	s.journal, err = openJournal(t.TempDir() + "/journal")
	assert.NoError(t, err, "journal")
	t.Cleanup(func() { _ = s.journal.f.Close() })
	s.db, err = sql.Open("pgx", postgres)
	assert.NoError(t, err, "open")
	t.Cleanup(func() { _ = s.db.Close() })
	store, err := sqlstore.New(s.db, sqlstore.PostgreSQL, &sqlstore.Options{Logger: quiet})
	assert.NoError(t, err, "store")
	assert.NoError(t, store.Migrate(t.Context()), "migrate")
	for _, table := range []string{
		"CREATE TABLE effects (id TEXT NOT NULL, pid INTEGER NOT NULL, late BOOLEAN NOT NULL)", "CREATE TABLE outcomes (id TEXT NOT NULL, pid INTEGER NOT NULL, what TEXT NOT NULL)",
	} {
		_, err := s.db.ExecContext(t.Context(), table)
		assert.NoError(t, err, "table")
	}
	s.engine = retrysafe.New(store, &retrysafe.Options{Namespace: "app", Sweep: -1, Logger: quiet})
	s.layer = "tx"
	if mode == "redis" {
		s.layer = "mq"
		s.engine = retrysafe.New(redisOn(t, redis), &retrysafe.Options{Namespace: "app", Sweep: -1, Logger: quiet})
	}
	s.args = []string{name, s.broker.url, mode, postgres, redis, s.journal.f.Name()}
	return s
}

// runSoak publishes and disturbs until every message is done or a dead letter. Then it redrives
// good messages that became dead letters, and waits for them.
func (s *soak) runSoak(t *testing.T) {
	t.Helper()
	// How long the run is disturbed, and then how long an event that must happen may take, on a
	// machine of any speed. A message that has not arrived after so long without disturbance is
	// lost and not late.
	trouble, limit := 2*time.Minute, 10*time.Minute
	if messageCount() > 1000 {
		trouble, limit = 25*time.Minute, 40*time.Minute
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	ctx, s.fail = context.WithCancelCause(ctx)
	first, err := s.open(ctx, s.broker.url) // it declares what must exist
	assert.NoError(t, err, "open")
	assert.NoError(t, first.Close(), "close")
	assert.NoError(t, pauseFor(ctx, s.rest), "rest")
	begun, published := time.Now(), make(chan error, 1)
	go func() { published <- s.publish(ctx) }()
	calm, quietly := context.WithTimeout(ctx, trouble)
	defer quietly()
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() { s.keepConsuming(calm, ctx) })
	}
	calmed := make(chan struct{})
	all.Go(func() { defer close(calmed); s.disturbBroker(calm, t) })
	assert.NoError(t, <-published, "publish")
	publishedAfter := time.Since(begun)
	s.awaitEffects(ctx, t, "messages done or dead", slices.Concat(s.good, slices.Collect(maps.Keys(s.bad))), true)
	settledAfter := time.Since(begun)
	quietly() // consumers continue, undisturbed
	<-calmed  // the broker may be restarting
	s.redriveGood(ctx, t)
	s.awaitEffects(ctx, t, "good messages done", s.good, false)
	cancel()
	all.Wait()
	bad := map[string]bool{}
	for _, p := range s.listDead(t) {
		bad[p.Message.ID] = true
		assert.Equal(t, p.Reason.Why, mqidem.DeadTries, "why a message is a dead letter")
		assert.True(t, p.Reason.Tries >= maxTries, "a message is a dead letter after %d tries", p.Reason.Tries)
	}
	assert.Equal(t, len(bad), len(s.bad), "bad messages that are dead letters")
	for id := range s.bad {
		assert.True(t, bad[id], "a bad message is a dead letter")
	}
	t.Logf("%d messages were published in %v, settled after %v, all through after %v", messageCount(), publishedAfter.Round(time.Millisecond), settledAfter.Round(time.Millisecond), time.Since(begun).Round(time.Millisecond))
	t.Logf("%d consumers were killed, connections cut %d times, the broker killed %d times", s.killed, s.cuts, s.restarts)
}

// publish sends each message one to three times, and again until the broker has confirmed it.
func (s *soak) publish(ctx context.Context) error {
	p, err := s.publisher(ctx, s.broker.url)
	if err != nil {
		return err
	}
	var batch []outbox.Outgoing
	for i := range messageCount() {
		m := outbox.Message{ID: fmt.Sprint("m", i), Topic: queue, Payload: []byte("good")}
		if i%100 == 7 {
			m.Payload, s.bad[m.ID] = []byte("bad"), true
		} else {
			s.good = append(s.good, m.ID)
		}
		for range 1 + rand.IntN(3) {
			batch = append(batch, outbox.Outgoing{Message: m, Added: time.Now(), Attempt: 1})
		}
		if len(batch) < 20 && i < messageCount()-1 {
			continue
		}
		for len(batch) > 0 {
			var again []outbox.Outgoing
			for j, err := range p.Publish(ctx, batch) {
				if err != nil {
					again = append(again, batch[j])
				}
			}
			if batch = again; len(batch) > 0 && pauseFor(ctx, 20*time.Millisecond) != nil {
				return ctx.Err()
			}
		}
		if err := pauseFor(ctx, 20*time.Millisecond); err != nil {
			// some work, some trouble, some more work
			return err
		}
	}
	return nil
}

// keepConsuming keeps a consumer running until ctx ends. Until disturbed ends, it kills the
// consumer now and then.
func (s *soak) keepConsuming(disturbed, ctx context.Context) {
	for ctx.Err() == nil {
		c, err := startChild(s.windows, s.args...)
		if err != nil {
			s.fail(fmt.Errorf("start a consumer: %w", err))
			return
		}
		most := s.life
		if most == 0 {
			most = 5 * time.Second
		}
		life, cancel := context.WithTimeout(disturbed, most/5+rand.N(most*4/5))
		select {
		case <-life.Done():
		case <-c.over:
			s.fail(errors.New("a consumer has ended by itself"))
			cancel()
			return
		}
		cancel()
		if disturbed.Err() == nil {
			c.signalAndWait(syscall.SIGKILL)
			counts.Lock()
			s.killed++
			s.pids = append(s.pids, int32(c.cmd.Process.Pid))
			counts.Unlock()
			s.journal.writeLine("-", "killed %d", c.cmd.Process.Pid)
			continue
		}
		select {
		case <-ctx.Done():
		case <-c.over:
		}
		c.signalAndWait(syscall.SIGTERM)
	}
}

var counts sync.Mutex

func (s *soak) countEvent(n *int) {
	counts.Lock()
	defer counts.Unlock()
	*n++
}

// eventsBetweenRestarts is about a minute.
const eventsBetweenRestarts = 70

// disturbBroker cuts connections and restarts the broker, once or again and again.
func (s *soak) disturbBroker(ctx context.Context, t *testing.T) {
	t.Helper()
	for i := 1; pauseFor(ctx, 400*time.Millisecond+rand.N(time.Second)) == nil; i++ {
		switch {
		case s.broker.restart != nil && (i == 3 || s.broker.again && messageCount() > 1000 && i%eventsBetweenRestarts == 0):
			s.broker.restart(t)
			s.countEvent(&s.restarts)
		case s.broker.cut != nil:
			s.broker.cut()
			s.countEvent(&s.cuts)
		}
	}
}

// redriveGood redrives good messages that used up their tries by bad luck.
func (s *soak) redriveGood(ctx context.Context, t *testing.T) {
	t.Helper()
	p, closer, err := s.deadLetters(ctx, s.broker.url)
	assert.NoError(t, err, "dead letters")
	defer closer.Close()
	put := 0
	for again := true; again; {
		again = false
		err = p.Walk(ctx, func(ctx context.Context, m *mqidem.DeadLetter) (mqidem.Verdict, error) {
			if s.bad[m.Message.ID] {
				return mqidem.Keep, nil
			}
			switch err := mqidem.Redrive(ctx, s.engine, p, m, &mqidem.RedriveOptions{By: "test"}); {
			case err == nil:
				put++
				return mqidem.Remove, nil
			case errors.Is(err, mqidem.ErrDoneElsewhere):
				return mqidem.Remove, nil
			default:
				again = true
				return mqidem.Keep, nil
			}
		})
		assert.NoError(t, err, "walk")
		if again {
			assert.NoError(t, pauseFor(ctx, 200*time.Millisecond), "wait for a record")
		}
	}
	assert.True(t, put <= messageCount()/20, "%d good messages had used up their tries, of %d", put, messageCount())
	t.Logf("%d good messages had used up their tries", put)
}

func (s *soak) listDead(t *testing.T) []*mqidem.DeadLetter {
	t.Helper()
	all, err := s.peekDead(t.Context())
	assert.NoError(t, err, "walk")
	return all
}

func (s *soak) peekDead(ctx context.Context) (all []*mqidem.DeadLetter, err error) {
	p, closer, err := s.deadLetters(ctx, s.broker.url)
	if err != nil {
		return nil, err
	}
	defer closer.Close()
	err = p.Walk(ctx, func(_ context.Context, m *mqidem.DeadLetter) (mqidem.Verdict, error) {
		all = append(all, m)
		return mqidem.Keep, nil
	})
	return all, err
}

// awaitEffects waits until all of these messages have an effect or, with deadToo, are dead letters.
// It looks for dead letters in the dead-letter queue itself: a consumer may have been killed after
// it wrote one and before it reported it.
func (s *soak) awaitEffects(ctx context.Context, t *testing.T, what string, want []string, deadToo bool) {
	t.Helper()
	var still stall
	dead, looked := map[string]bool{}, time.Now()
	for {
		done := s.queryCounts(t, "SELECT id, count(*) FROM effects GROUP BY id")
		if deadToo && time.Since(looked) > time.Second {
			all, _ := s.peekDead(ctx) // while the broker is down there is nothing to see
			for _, p := range all {
				dead[p.Message.ID] = true
			}
			looked = time.Now()
		}
		var missing []string
		for _, id := range want {
			if done[id] == 0 && !dead[id] {
				missing = append(missing, id)
			}
		}
		if len(missing) == 0 {
			return
		}
		if still.noteProgress(len(missing)) {
			s.printState(ctx, t, missing)
		}
		assert.NoError(t, pauseFor(ctx, 100*time.Millisecond), "%s: %d of %d are missing: %q", what, len(missing), len(want), missing[:min(len(missing), 10)])
	}
}

func (s *soak) queryCounts(t *testing.T, query string, args ...any) map[string]int {
	t.Helper()
	rows, err := s.db.QueryContext(t.Context(), query, args...)
	assert.NoError(t, err, "query")
	defer rows.Close()
	all := map[string]int{}
	for rows.Next() {
		var id string
		var n int
		assert.NoError(t, rows.Scan(&id, &n), "scan")
		all[id] = n
	}
	assert.NoError(t, rows.Err(), "rows")
	return all
}

func pauseFor(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// sample is a collection of durations.
type sample struct {
	mu  sync.Mutex
	all []time.Duration
}

func (s *sample) add(text string) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, time.Duration(n))
}

func (s *sample) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.all) == 0 {
		return "none"
	}
	slices.Sort(s.all)
	return fmt.Sprintf("p50 %v, p99 %v, longest %v", s.all[len(s.all)/2], s.all[len(s.all)*99/100], s.all[len(s.all)-1])
}
