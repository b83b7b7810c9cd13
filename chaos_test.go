package retrysafe_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/storetest"
)

// TestFaults sends callers of several processes at few keys through a network that loses requests
// and replies, delays what it delivers and fails altogether, while work fails, panics and is too
// slow. Under Refuse no work starts twice, and every caller that gets a final answer gets the same
// one. Under Reexecute no key stays stuck. TestSoakFaults is the long form; a failure names its
// seed.
func TestFaults(t *testing.T) {
	t.Parallel()
	faults(t, 750)
}

func TestSoakFaults(t *testing.T) {
	t.Parallel()
	faults(t, 20_000)
}

func faults(t *testing.T, rounds int) {
	t.Helper()
	first, _ := strconv.ParseUint(os.Getenv("RETRYSAFE_SEED"), 10, 64)
	for i := range rounds {
		seed := first + uint64(i)
		for _, onDoubt := range []retrysafe.OnDoubt{retrysafe.Refuse, retrysafe.Reexecute} {
			synctest.Test(t, func(t *testing.T) {
				storm(t, seed, onDoubt)
				if t.Failed() {
					t.Logf("again: RETRYSAFE_SEED=%d, policy %d", seed, onDoubt)
				}
			})
		}
	}
}

// weather decides on faults by a seed.
type weather struct {
	mu   sync.Mutex
	rand *rand.Rand
	bad  bool
}

func (w *weather) n(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rand.IntN(n)
}

func (w *weather) hook(string, int) storetest.Fault {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.bad {
		return 0
	}
	switch w.rand.IntN(12) {
	case 0:
		return storetest.LoseRequest
	case 1, 2:
		return storetest.LoseReply
	case 3:
		return storetest.Delay
	case 4:
		return storetest.Block
	case 5:
		return storetest.BlockReply
	}
	return 0
}

func storm(t *testing.T, seed uint64, onDoubt retrysafe.OnDoubt) {
	t.Helper()
	w := &weather{rand: rand.New(rand.NewPCG(seed, 1)), bad: true}
	s := newStore()
	const processes, keys, calls = 3, 2, 12
	p := retrysafe.Policy{Lease: 10 * time.Second, OnDoubt: onDoubt, Wait: 3 * time.Second}
	engines, nets := make([]*retrysafe.Engine, processes), make([]*storetest.Faulty, processes)
	for i := range engines {
		nets[i] = storetest.NewFaulty(s, w.hook)
		engines[i] = engineOn(t, nets[i], p)
	}
	var mu sync.Mutex
	starts, told := map[string]int{}, map[string]string{}
	maybe := map[string]bool{} // a start that may have acted
	// Keys that the operator has looked at: they may stay in doubt although no work started.
	resolved := map[string]bool{}
	call := func(e *retrysafe.Engine, id string) {
		defer func() { _ = recover() }()
		ctx, cancel := context.WithTimeout(ctx, time.Duration(1+w.n(20))*time.Second)
		defer cancel()
		res, err := retrysafe.Do(ctx, e, retrysafe.Key{Operation: "storm", ID: id}, func(context.Context) (string, error) {
			mu.Lock()
			starts[id]++
			n := starts[id]
			if n > 1 && maybe[id] && onDoubt == retrysafe.Refuse {
				t.Errorf("key %s: start %d although an earlier one may have acted", id, n)
			}
			maybe[id] = true
			mu.Unlock()
			time.Sleep(time.Duration(w.n(30)) * time.Second)
			switch w.n(8) {
			case 0:
				panic("storm")
			case 1:
				return "", errWork
			case 2:
				mu.Lock()
				maybe[id] = false
				mu.Unlock()
				return "", retrysafe.NothingDone(errWork)
			}
			return fmt.Sprintf("answer of start %d", n), nil
		})
		if err == nil && res.Stored {
			mu.Lock()
			defer mu.Unlock()
			if before := told[id]; before != "" && before != res.Value {
				t.Errorf("key %s: told %q, and before %q", id, res.Value, before)
			}
			told[id] = res.Value
		}
	}
	var all sync.WaitGroup
	for i := range calls {
		e, id, begin := engines[w.n(processes)], strconv.Itoa(i%keys), time.Duration(w.n(60))*time.Second
		all.Go(func() {
			time.Sleep(begin)
			call(e, id)
		})
	}
	all.Go(func() { // a delayed request arrives at some time
		for range 60 {
			time.Sleep(2 * time.Second)
			nets[w.n(processes)].Deliver()
		}
	})
	if onDoubt == retrysafe.Refuse {
		all.Go(func() { // an operator resolves what is in doubt, over the same network
			for range 20 {
				time.Sleep(time.Duration(1+w.n(10)) * time.Second)
				ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
				defer cancel()
				e, k := engines[w.n(processes)], retrysafe.Key{Operation: "storm", ID: strconv.Itoa(w.n(keys))}
				rec, err := e.Lookup(ctx, k)
				if err != nil || !rec.InDoubt() {
					continue
				}
				mu.Lock()
				resolved[k.ID] = true
				mu.Unlock()
				r := retrysafe.Resolution{Fence: rec.Fence, Outcome: retrysafe.Doubtful}
				if w.n(2) == 0 {
					r.Outcome = retrysafe.Done
					r.Answer = retrysafe.Answer{Codec: "json", Body: []byte(fmt.Sprintf("%q", "found out at "+rec.Now.String())), Kept: true}
				}
				_ = e.Resolve(ctx, k, r)
			}
		})
	}
	all.Wait()
	w.mu.Lock()
	w.bad = false
	w.mu.Unlock()
	for _, n := range nets {
		n.Deliver()
	}
	// Leases expire, delayed answers arrive, and claims are given back.
	time.Sleep(3 * time.Minute)
	for i := range keys {
		id := strconv.Itoa(i)
		settled(t, engines[0], id, onDoubt == retrysafe.Refuse && (starts[id] > 0 || resolved[id]))
	}
}

// settled checks that, when the network is good, a call ends with an answer or, if an attempt has
// started under Refuse, with ErrInDoubt. No process crashed here, so there is no doubt without a
// start.
func settled(t *testing.T, e *retrysafe.Engine, id string, mayDoubt bool) {
	t.Helper()
	_, err := retrysafe.Do(ctx, e, retrysafe.Key{Operation: "storm", ID: id}, func(context.Context) (string, error) { return "fair weather", nil })
	if err != nil && (!mayDoubt || !errors.Is(err, retrysafe.ErrInDoubt)) {
		t.Errorf("key %s: %v", id, err)
	}
}
