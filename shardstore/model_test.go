//go:build !race

package shardstore_test

import (
	"context"
	"fmt"
	"hash/maphash"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/shardstore"
	"github.com/retrysafe/retrysafe/storeapi"
)

// action is a next step: a call of a process, the arrival of a late request, or the passing of
// time.
type action struct {
	proc int // with late requests numbered after the processes; -1: time passes
	how  how
}

// actions returns all possible next steps. A switch continues another process than the last one,
// although the last one could continue. The number of switches is limited.
func (w *world) actions() (all []action) {
	for i, p := range w.procs {
		if p.ended || p.pending == nil || w.switches == 0 && w.switched(i) || w.waits(p) {
			continue
		}
		all = append(all, action{i, answered})
		if w.faults == 0 {
			continue
		}
		if w.config.slow {
			if strings.HasPrefix(p.pending.what, "acquire the key") {
				all = append(all, action{i, seenLate})
			}
			continue
		}
		for h := lostReply; h < seenLate; h++ {
			late := h == lateRequest && (p.quiet || !strings.HasPrefix(p.pending.what, "acquire the key") && !strings.HasPrefix(p.pending.what, "commit"))
			if p.pending.within() && h != crashed {
				continue // the database rolls back
			}
			if p.pending.wait == 0 && !late || h == crashed {
				all = append(all, action{i, h})
			}
		}
	}
	for i := range w.late {
		all = append(all, action{len(w.procs) + i, answered})
	}
	if w.ticks > 0 {
		all = append(all, action{proc: -1})
	}
	return all
}

// switched reports whether it is a switch if process i continues.
func (w *world) switched(i int) bool {
	last := w.procs[w.last]
	return w.last != i && last.pending != nil && !w.waits(last)
}

// waits reports whether a process waits for another.
func (w *world) waits(p *proc) bool { return p.pending.held != nil && p.pending.held() }

// act performs an action, and returns when every process waits again.
func (w *world) act(a action) {
	switch {
	case a.proc < 0:
		w.ticks--
		w.pass(6 * time.Second)
		w.log = append(w.log, "6 s pass")
	case a.proc >= len(w.procs):
		i := a.proc - len(w.procs)
		arrived := w.late[i]
		w.late = append(w.late[:i:i], w.late[i+1:]...)
		arrived.do()
		w.log = append(w.log, "arrives: "+arrived.what)
	default:
		p := w.procs[a.proc]
		if w.switched(a.proc) {
			w.switches--
		}
		w.last = a.proc
		w.log = append(w.log, p.name+": "+p.pending.what+a.how.String())
		if a.how != answered {
			w.faults--
		}
		if a.how != crashed {
			w.pass(p.pending.wait)
		}
		p.pending = nil
		p.verdict <- a.how
		<-w.turn
	}
}

func (w *world) pass(d time.Duration) {
	for _, c := range w.clocks {
		c.Advance(d)
	}
}

// code distinguishes worlds by everything that can matter later.
func (w *world) code(h *maphash.Hash) uint64 {
	h.Reset()
	ctx := context.Background()
	for _, n := range []string{"a", "b"} {
		for i := range 7 {
			key := theKey
			if i > 0 {
				key = shardstore.MapKey(int64(i))
			}
			rec, _ := w.stores[n].Lookup(ctx, key)
			fmt.Fprint(h, plain(rec), "|")
		}
		fmt.Fprint(h, *w.locks[n], "|")
	}
	for _, p := range w.procs {
		what := ""
		if p.pending != nil {
			what = p.pending.what
		}
		fmt.Fprint(h, p.ended, what, p.seen, "|")
	}
	for _, l := range w.late {
		fmt.Fprint(h, l.what, "|")
	}
	fmt.Fprint(h, w.last, w.switches, w.faults, w.ticks, w.active, w.done, w.fence, w.got.Attempt, w.got.Created.UnixMicro())
	return h.Sum64()
}

// probe asks like a new process. The world cannot be used afterwards.
func (w *world) probe() {
	ctx := context.Background()
	s, err := shardstore.New(ctx, w.ports(new(proc), "ab"), nil)
	if err != nil {
		w.broken = "no store: " + err.Error()
		return
	}
	if w.hasTx() {
		w.probeTx(s)
		return
	}
	req := storeapi.AcquireRequest{Key: theKey, Owner: storeapi.Owner{99}, Lease: time.Hour, Retention: time.Hour, OnDoubt: storeapi.Refuse}
	done := w.done
	got, err := s.Acquire(ctx, req)
	switch {
	case err != nil:
		w.broken = "a new process is told: " + err.Error()
	case got.Status == storeapi.StatusAcquired:
		w.log = append(w.log, "a new process asks, and wins")
		w.won(got.Record)
	case done != "" && (got.Status != storeapi.StatusFinished || string(got.Record.Answer.Body) != done):
		w.broken = fmt.Sprintf("a new process is told %v and %q after %q was kept", got.Status, got.Record.Answer.Body, done)
	}
}

// end lets all processes end.
func (w *world) end() {
	for _, p := range w.procs {
		if !p.ended {
			p.verdict <- crashed
			<-w.turn
		}
	}
}

// search visits all worlds. It returns the steps to the first violation.
func search(t *testing.T, c *config) string {
	t.Helper()
	var h maphash.Hash
	seen, deepest, began := map[uint64]struct{}{}, 0, time.Now()
	level := [][]action{nil}
	for len(level) > 0 {
		var next [][]action
		for _, path := range level {
			w := newWorld(c)
			for _, a := range path {
				w.act(a)
			}
			code := w.code(&h)
			if _, known := seen[code]; known && w.broken == "" {
				w.end()
				continue
			}
			seen[code] = struct{}{}
			if w.broken == "" {
				for _, a := range w.actions() {
					next = append(next, append(path[:len(path):len(path)], a))
				}
				w.probe()
			}
			w.end()
			if w.broken != "" {
				return w.broken + "\n\t" + strings.Join(w.log, "\n\t")
			}
		}
		deepest++
		level = next
	}
	t.Logf("%d worlds, %d steps deep, in %v", len(seen), deepest, time.Since(began).Round(time.Millisecond))
	return ""
}

// TestModel: no order of the calls of two callers and of a change of maps, with faults, runs a key
// twice, loses a stored answer, or lets a fence go back. The number of switches is limited.
func TestModel(t *testing.T) {
	t.Parallel()
	more := 0
	if os.Getenv("RETRYSAFE_SOAK") == "long" {
		more = 1
	}
	all := []config{
		{name: "two that complete, clocks an hour apart", ends: "cc", switches: 2, skew: time.Hour},
		{name: "one that releases, the old clock is ahead", ends: "rc", switches: 2, skew: -time.Hour},
		{name: "one that dies", ends: "dc", switches: 2},
		{name: "taken back", ends: "cc", switches: 2, back: true},
		{name: "transactions", ends: "tt", switches: 2, skew: time.Hour},
		{name: "transactions, taken back", ends: "tt", switches: 2, back: true},
		{name: "one caller and a fault", ends: "c", switches: 1, fault: 1},
	}
	if os.Getenv("RETRYSAFE_MODELS") == "long" || more > 0 { // make verify; they take a minute
		all = append(all,
			config{name: "a claim that is seen late", ends: "cc", switches: 2, fault: 1, slow: true, skew: time.Hour},
			config{name: "one caller, a fault, and time", ends: "c", switches: 1, fault: 1, ticks: 1, skew: time.Hour},
			config{name: "a fault", ends: "cc", switches: 1, fault: 1},
			config{name: "a transaction, a fault, and time", ends: "t", switches: 1, fault: 1, ticks: 1, skew: -time.Hour},
			config{name: "transactions and a fault", ends: "tt", switches: 1, fault: 1},
		)
	}
	if more > 0 {
		all = append(all,
			config{name: "two that complete", ends: "cc", switches: 2},
			config{name: "a fault and a release", ends: "rc", switches: 1, fault: 1, skew: -time.Hour},
			config{name: "a fault, taken back", ends: "cc", switches: 1, fault: 1, back: true},
			config{name: "time passes", ends: "cc", switches: 1, ticks: 2, skew: time.Hour},
		)
	}
	for _, c := range all {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.switches += more
			if found := search(t, &c); found != "" {
				t.Error(found)
			}
		})
	}
}

// TestModelFindsMistakes: every rule of a change is necessary. The search finds a violation when
// one is left out.
func TestModelFindsMistakes(t *testing.T) {
	t.Parallel()
	for _, c := range []config{
		{name: "a claim outlives its map", ends: "cc", switches: 2, noUntil: true, noClock: true},
		{name: "nobody looks again after a win that is seen late", ends: "cc", switches: 2, fault: 1, slow: true, noClock: true},
		{name: "the operator does not wait", ends: "cc", switches: 2, noWait: true},
		{name: "the operator does not look", ends: "dc", switches: 2, noLook: true},
		{name: "a transaction does not look at the map", ends: "tt", switches: 2, noGate: true},
		{name: "the operator does not wait for transactions", ends: "tt", switches: 2, noSettle: true},
		{name: "the old home is not closed to transactions", ends: "tt", switches: 2, noClosing: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			found := search(t, &c)
			assert.True(t, found != "", "the search finds what goes wrong")
			t.Log(found)
		})
	}
}
