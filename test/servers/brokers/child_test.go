package brokers_test

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/adapters/rueidisclient"
	"github.com/retrysafe/retrysafe/mqidem"
	"github.com/retrysafe/retrysafe/redisclient"
	"github.com/retrysafe/retrysafe/stores/redisstore"
	"github.com/retrysafe/retrysafe/stores/sqlstore"
)

// childEnv turns a copy of the test binary into a consumer that can be killed.
const childEnv = "RETRYSAFE_TEST_CONSUMER"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) == "" {
		os.Exit(m.Run())
	}
	if err := runConsumer(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

const (
	maxTries = 8
	lease    = 10 * time.Second // a live consumer keeps it, however busy the machine is
	// How often of a thousand the handler fails: before its effect, and by continuing after its
	// lease although its context has ended.
	failing, outliving = 50, 10
)

var (
	errBad  = errors.New("a message that always fails")
	errLuck = errors.New("bad luck")
)

// execer is a transaction or the database.
type execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// runConsumer is the other process. Its arguments are: broker, its URL, "tx" or "redis", the
// database, Redis, the journal.
func runConsumer(args []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	db, err := sql.Open("pgx", args[3])
	if err != nil {
		return err
	}
	defer db.Close()
	db.SetMaxOpenConns(16)
	db.SetMaxIdleConns(16)
	h, err := newHandler(ctx, args[2], db, args[4])
	if err != nil {
		return err
	}
	if h.journal, err = openJournal(args[5]); err != nil {
		return err
	}
	h.journal.writeLine("-", "started")
	s, err := kinds[args[0]].open(ctx, args[1])
	for err != nil { // the broker is unavailable
		if pauseFor(ctx, 100*time.Millisecond) != nil {
			return nil
		}
		s, err = kinds[args[0]].open(ctx, args[1])
	}
	defer s.Close()
	h.journal.writeLine("-", "opened")
	return mqidem.Consume(ctx, traced{s, h.journal}, h.handle, &mqidem.Options{
		MaxAttempts: maxTries, Backoff: mqidem.Fixed(100 * time.Millisecond), Concurrency: 8, Logger: quiet, Drain: 5 * time.Second, OnOutcome: h.observe,
	})
}

// handler records each effect and each finished message in the database.
type handler struct {
	db      *sql.DB
	outlive time.Duration // of a handler that continues after its lease
	journal *journal
	inner   mqidem.Handler
	mu      sync.Mutex
	effect  map[string]time.Time // time of the last effect, of messages in work
}

func newHandler(ctx context.Context, mode string, db *sql.DB, redis string) (*handler, error) {
	h := &handler{db: db, outlive: lease * 5 / 2, effect: map[string]time.Time{}}
	policy := retrysafe.WithPolicy(retrysafe.Policy{Lease: lease, MaxRun: lease, Retention: retrysafe.Forever})
	if mode == "tx" { // there is no lease
		h.outlive = 3 * time.Second
		store, err := sqlstore.New(db, sqlstore.PostgreSQL, &sqlstore.Options{Logger: quiet})
		if err != nil {
			return nil, err
		}
		e := retrysafe.New(store, &retrysafe.Options{Namespace: "app", Sweep: -1, Logger: quiet})
		h.inner = mqidem.OnceTx(e, store, "effect", func(ctx context.Context, tx *sql.Tx, m *mqidem.Message) error { return h.doWork(ctx, tx, m) },
			retrysafe.WithPolicy(retrysafe.Policy{Retention: retrysafe.Forever}))
		return h, nil
	}
	address, err := redisclient.ParseURL(redis)
	if err != nil {
		return nil, err
	}
	client, err := rueidisclient.Open(address)
	if err != nil {
		return nil, err
	}
	store, err := redisstore.New(ctx, client, &redisstore.Options{Logger: quiet})
	if err != nil {
		return nil, err
	}
	e := retrysafe.New(store, &retrysafe.Options{Namespace: "app", Sweep: -1, Logger: quiet})
	h.inner = mqidem.Once(e, "effect", func(ctx context.Context, m *mqidem.Message) error { return h.doWork(ctx, db, m) }, policy)
	return h, nil
}

// doWork is the handler of the application, with all its faults.
func (h *handler) doWork(ctx context.Context, to execer, m *mqidem.Message) error {
	switch string(m.Body) {
	case "bad":
		return errBad
	case "hangs once":
		return h.hangOnce(ctx, to, m)
	}
	late := false
	switch n := rand.IntN(1000); {
	case n < failing:
		return errLuck
	case n < failing+outliving:
		time.Sleep(h.outlive)
		late, ctx = true, context.WithoutCancel(ctx)
	}
	_, err := to.ExecContext(ctx, "INSERT INTO effects (id, pid, late) VALUES ($1, $2, $3)", m.ID, os.Getpid(), late)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.effect[m.ID] = time.Now()
	return err
}

// hangOnce has its effect only at the second try. The first try hangs until its process is killed.
func (h *handler) hangOnce(ctx context.Context, to execer, m *mqidem.Message) error {
	begun := 0
	if err := h.db.QueryRowContext(ctx, "SELECT count(*) FROM outcomes WHERE id = $1 AND what = 'begun'", m.ID).Scan(&begun); err != nil {
		return err
	}
	if _, err := h.db.ExecContext(ctx, "INSERT INTO outcomes (id, pid, what) VALUES ($1, $2, 'begun')", m.ID, os.Getpid()); err != nil {
		return err
	}
	if begun == 0 {
		select {}
	}
	_, err := to.ExecContext(ctx, "INSERT INTO effects (id, pid, late) VALUES ($1, $2, false)", m.ID, os.Getpid())
	return err
}

// handle measures the time from an effect to its record, in which the effect happens again if the
// process dies.
func (h *handler) handle(ctx context.Context, m *mqidem.Message) error {
	h.journal.writeLine(m.ID, "handled …")
	err := h.inner(ctx, m)
	h.journal.writeLine(m.ID, "handled: %v", err)
	h.mu.Lock()
	defer h.mu.Unlock()
	if at, ok := h.effect[m.ID]; ok && err == nil {
		fmt.Println(time.Since(at).Nanoseconds())
	}
	delete(h.effect, m.ID)
	return err
}

// observe records a finished message after its record says so. A process that is killed in between
// does not get there.
func (h *handler) observe(_ context.Context, o mqidem.Outcome) {
	h.journal.writeLine(o.Message.ID, "outcome %s, try %d: %v", o.What, o.Try, o.Err)
	if o.What != mqidem.OutcomeDone && o.What != mqidem.OutcomeDead {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_, _ = h.db.ExecContext(ctx, "INSERT INTO outcomes (id, pid, what) VALUES ($1, $2, $3)", o.Message.ID, os.Getpid(), o.What)
}

// child is a consumer in its own process.
type child struct {
	cmd  *exec.Cmd
	over chan struct{}
}

// startChild starts a child. Its measurements go to windows.
func startChild(windows *sample, args ...string) (*child, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &child{cmd: exec.Command(exe, args...), over: make(chan struct{})}
	c.cmd.Env = append(os.Environ(), childEnv+"=1")
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	c.cmd.Stderr = os.Stderr
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(c.over)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			windows.add(lines.Text())
		}
		_ = c.cmd.Wait()
	}()
	return c, nil
}

// signalAndWait sends it a signal and waits for its end.
func (c *child) signalAndWait(sig syscall.Signal) {
	_ = c.cmd.Process.Signal(sig)
	<-c.over
}
