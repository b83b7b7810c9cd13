package main

import (
	"context"
	"fmt"
	"hash/fnv"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// TestSoakGateway sends many operations through a gateway that is its own process on SQLite, and is
// killed and restarted again and again. The service fails in many ways: it acts and does not
// answer, answers late, partly or at length, refuses, and is unreachable. Callers hang up, send
// copies and press again. Then the test checks all answers against what the service did, resolves
// each doubt with the keys command, and asks for all keys once more. RETRYSAFE_SOAK=long makes it
// long. RETRYSAFE_SEED repeats the choices of a run, but not its timing.
func TestSoakGateway(t *testing.T) {
	t.Parallel()
	seed, err := strconv.ParseUint(os.Getenv("RETRYSAFE_SEED"), 10, 64)
	if err != nil {
		seed = rand.Uint64N(1_000_000)
	}
	refuse, reexecute := 110, 40
	if os.Getenv("RETRYSAFE_SOAK") == "long" {
		refuse, reexecute = 1000, 250
	}
	t.Run("refuse", func(t *testing.T) {
		t.Parallel()
		soakGateway(t, &soak{seed: seed, operations: refuse})
	})
	t.Run("reexecute", func(t *testing.T) {
		t.Parallel()
		soakGateway(t, &soak{seed: seed, operations: reexecute, reexecute: true})
	})
}

// soak is one run.
type soak struct {
	t          *testing.T
	seed       uint64
	operations int
	reexecute  bool

	service           *service
	client            *http.Transport
	file, store, addr string
	process           *exec.Cmd
	log               output
	ops               []*operation
	replayed          atomic.Int64
	// answered signals, if a receiver waits, that a caller has just read an answer.
	answered           chan struct{}
	byHash             map[string]*operation
	resolved, released int

	mu    sync.Mutex
	kills []time.Time
	found map[check]int
}

// check is the name of a check.
type check string

const (
	once    check = "at most once"
	replays check = "every repeat gets the first answer"
	blocked check = "no key stays blocked"
	doubts  check = "doubts are listed and settled"
	run     check = "the run itself"
)

// report reports that a check failed. It prints only the first few failures of each check.
func (s *soak) report(c check, format string, args ...any) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.found[c]++; s.found[c] <= 5 {
		s.t.Errorf("%s: %s", c, fmt.Sprintf(format, args...))
	}
}

// newRand returns a source of choices that the seed repeats. Each source is independent, so the
// order of calls does not matter.
func (s *soak) newRand(of ...any) *rand.Rand {
	h := fnv.New64a()
	_, _ = fmt.Fprintln(h, of...)
	return rand.New(rand.NewPCG(s.seed, h.Sum64()))
}

func soakGateway(t *testing.T, s *soak) {
	t.Helper()
	s.t, s.found, s.byHash, s.answered = t, map[check]int{}, map[string]*operation{}, make(chan struct{})
	s.client = &http.Transport{DisableKeepAlives: true, DisableCompression: true}
	engine := retrysafe.New(memstore.New(nil), &retrysafe.Options{Secret: []byte(soakSecret), Sweep: -1}).Layer("gw")
	for i := range s.operations {
		op := &operation{key: fmt.Sprint("key-", s.seed, "-", i), path: []string{"/orders", "/orders", "/patient"}[i%3]}
		s.ops = append(s.ops, op)
		s.byHash[engine.KeyHash(retrysafe.Key{Tenant: "global", Operation: "POST " + op.path, ID: op.key})] = op
	}
	s.service = newService(t, s)
	s.writeConfig(t)
	s.startGateway(t)
	defer func() { killProcess(s.process) }()
	begun := time.Now()
	s.runStorm(t)
	stormed := time.Since(begun)

	// From now on answers have to come, however slow the machine is.
	s.killGateway()
	s.setLimits(t, time.Minute, time.Minute, time.Minute)
	s.startGateway(t)
	open := s.finishOpen()
	unknown := len(open)
	s.resolveOpen(t, open)
	s.killGateway()
	s.startGateway(t)
	s.eachOperation(func(op *operation) {
		if s.callOnce(t.Context(), op) != final {
			s.report(replays, "key %s has no final answer after all was settled and the gateway began anew", op.key)
		}
	})
	longest := time.Duration(0)
	for _, op := range s.ops {
		longest = max(longest, s.blockedBy(op))
	}
	s.logSummary(t, stormed, unknown, longest)
	for c, n := range s.found {
		t.Logf("%s: failed %d times", c, n)
	}
	if t.Failed() {
		said := s.log.String()
		t.Logf("again: RETRYSAFE_SEED=%d; the gateways said at the end:\n%s", s.seed, said[max(0, len(said)-3000):])
	}
}

// eachOperation calls do for all operations, several at a time.
func (s *soak) eachOperation(do func(*operation)) {
	todo := make(chan *operation)
	var workers sync.WaitGroup
	for range 12 {
		workers.Go(func() {
			for op := range todo {
				do(op)
			}
		})
	}
	for _, op := range s.ops {
		todo <- op
	}
	close(todo)
	workers.Wait()
}

// runStorm runs all callers while the gateway is killed again and again.
func (s *soak) runStorm(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() { s.service.changeWeather(ctx, s.newRand("weather")) })
	all.Go(func() {
		defer cancel()
		s.eachOperation(func(op *operation) { s.runOperation(op, s.newRand("caller", op.key)) })
	})
	for r := s.newRand("kills"); sleepFor(ctx, 50*time.Millisecond+time.Duration(r.IntN(600))*time.Millisecond); {
		switch r.IntN(3) {
		case 0: // the record is about to be written
			awaitSignal(ctx, s.service.worked)
			sleepFor(ctx, time.Duration(r.IntN(8000))*time.Microsecond)
		case 1: // the record must exist
			awaitSignal(ctx, s.answered)
		}
		s.killGateway()
		s.startGateway(t)
	}
	all.Wait()
}

// finishOpen sends each key until there is a final answer, with a healthy service and a gateway
// that stays up. It returns what is in doubt.
func (s *soak) finishOpen() map[*operation]bool {
	s.service.calm.Store(true)
	open := map[*operation]bool{}
	s.eachOperation(func(op *operation) {
		v := again
		for end := time.Now().Add(3 * time.Minute); v != final && v != unknown; {
			if time.Now().After(end) {
				s.report(blocked, "key %s gives no final word", op.key)
				return
			}
			v = s.callOnce(s.t.Context(), op)
			sleepFor(s.t.Context(), 50*time.Millisecond)
		}
		if v == unknown {
			s.mu.Lock()
			defer s.mu.Unlock()
			open[op] = true
		}
	})
	for end := time.Now().Add(3 * time.Minute); !s.service.isIdle() && time.Now().Before(end); {
		sleepFor(s.t.Context(), 20*time.Millisecond)
	}
	return open
}

// resolveOpen resolves what is in doubt by what the service knows, and checks what duplicates get
// then.
func (s *soak) resolveOpen(t *testing.T, open map[*operation]bool) {
	t.Helper()
	dir, places := t.TempDir(), make(chan struct{}, 3)
	var people sync.WaitGroup
	for hash, d := range s.listDoubts(t) {
		op := s.byHash[hash]
		if !open[op] || d.State != "in-doubt" {
			s.report(doubts, "%+v is listed, and a repeat was not told so", d)
			continue
		}
		delete(open, op)
		happened := s.service.countEffects(op.key) > 0
		if happened {
			s.resolved++
		} else {
			s.released++
		}
		people.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			if happened {
				s.resolveDoubt(op, d, filepath.Join(dir, hash))
			} else {
				s.releaseDoubt(op, d)
			}
		})
	}
	people.Wait()
	for op := range open {
		s.report(doubts, "key %s is in doubt, and is not listed", op.key)
	}
	if left := s.listDoubts(t); len(left) > 0 {
		s.report(doubts, "still in doubt after all was settled: %v", left)
	}
}

// resolveDoubt gives an answer in place of the lost one. A duplicate gets it.
func (s *soak) resolveDoubt(op *operation, d doubt, file string) {
	text := `{"found out for":"` + op.key + `"}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		s.report(run, "body: %v", err)
	}
	s.runResolve(d, "resolve", "--outcome", "done", "--status", "201", "--body", file)
	op.mu.Lock()
	op.given, op.seen, op.since = true, givenAnswer(text), time.Now()
	op.mu.Unlock()
	if v := s.callOnce(s.t.Context(), op); v != final {
		s.report(doubts, "key %s was resolved: verdict %d", op.key, v)
	}
}

// releaseDoubt releases the key. A retry runs, and takes effect once.
func (s *soak) releaseDoubt(op *operation, d doubt) {
	s.service.undoWork(op.key)
	s.runResolve(d, "release")
	if v, n := s.callOnce(s.t.Context(), op), s.service.countEffects(op.key); v != final || n != 1 {
		s.report(doubts, "key %s was released: verdict %d, %d effects", op.key, v, n)
	}
}

// logSummary compares the effects with the answers, and reports the totals.
func (s *soak) logSummary(t *testing.T, took time.Duration, open int, longest time.Duration) {
	t.Helper()
	asked, effects, doubles, succeeded := 0, 0, 0, 0
	for _, op := range s.ops {
		asked += len(op.requests)
		n := s.service.countEffects(op.key)
		effects += n
		doubles += max(0, n-1)
		acted := op.given || op.large
		if !acted && op.seen != nil {
			m := s.service.findMessage(op.seen.token)
			acted = m != nil && m.acted
		}
		if acted {
			succeeded++
		}
		if acted && n == 0 || !s.reexecute && (acted && n != 1 || n > 1) {
			s.report(once, "key %s: acted %v, and %d effects", op.key, acted, n)
		}
	}
	policy := "refuse"
	if s.reexecute {
		policy = "reexecute"
	}
	t.Logf("%s, seed %d: %d operations in %.0f s, %d repeats, %d answers from records, %d kills, %d times without a service; "+
		"%d took effect, %d effects, doubles %d; in doubt %d, resolved %d, released %d; longest in progress after a kill %.2f s (lease %v)",
		policy, s.seed, len(s.ops), took.Seconds(), asked-len(s.ops), s.replayed.Load(), len(s.kills), s.service.outages,
		succeeded, effects, doubles, open, s.resolved, s.released, longest.Seconds(), lease)
	// A soak in which too little happens proves nothing.
	least := s.operations / 20
	if len(s.kills) < least || asked < 2*len(s.ops) || s.service.outages == 0 || !s.reexecute && s.resolved+s.released < least {
		s.report(run, "too little has happened")
	}
}

// sleepFor returns false when ctx ends first.
func sleepFor(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func awaitSignal(ctx context.Context, what <-chan struct{}) {
	select {
	case <-what:
	case <-ctx.Done():
	}
}

// It returns a logger that discards everything.
func silentLogger() *log.Logger { return log.New(io.Discard, "", 0) }
