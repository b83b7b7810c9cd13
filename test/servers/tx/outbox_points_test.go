package tx_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/outbox"
	"github.com/retrysafe/retrysafe/test/servers/internal/shops"
	"github.com/retrysafe/retrysafe/test/servers/internal/sqltest"
	"github.com/retrysafe/retrysafe/test/servers/internal/waits"
)

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
		return errorOfEach(batch, err)
	}
	return errs
}

// idsOf returns the ids of the messages of a key.
func (b fileBroker) idsOf(t *testing.T) func(key string) []string {
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

// unhurriedTimes returns times with which a relay acquires all partitions, with a statement each,
// within a third of its lease, also on a busy machine.
func unhurriedTimes() *outbox.RelayOptions {
	o := steadyRelay()
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
	relay, err := outbox.NewRelay(box, b, unhurriedTimes())
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

// heldUp is a list of keys that a pass leaves out, as each database writes it.
var heldUp = regexp.MustCompile(`NOT IN \(|<> ALL\(`)

// point is a step of a relay at which something happens.
type point struct {
	step  string
	n     int    // the nth time that the step occurs
	when  string // "before" or "after"
	atEnd bool   // the step occurs only when the relay is stopped
}

func (p point) String() string { return fmt.Sprintf("%s %s (%d)", p.when, p.step, p.n) }

// isOptional reports whether a relay may work without reaching the point. A pass names keys
// only if some were held up when it began.
func (p point) isOptional() bool {
	return p.n > 1 || p.step == "rollback" || heldUp.MatchString(p.step)
}

// wasReached returns a function that reports whether the point was reached. For a point that not
// every relay reaches, it returns true after some time.
func (p point) wasReached(met *atomic.Bool) func() bool {
	began := time.Now()
	return func() bool {
		return met.Load() || p.atEnd || p.isOptional() && time.Since(began) > 500*time.Millisecond
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
