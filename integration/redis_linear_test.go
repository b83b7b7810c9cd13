package integration_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/protocol"
)

// linearNow is the time of the model, which stands still: leases and retentions are far longer than
// a history.
const linearNow = protocol.Micros(1)

// linearCall is one call of a history, and linearReply is what its caller got.
type (
	linearCall  struct{ request any }
	linearReply struct {
		unknown bool // it is unknown whether it was applied
		lost    bool // ErrLeaseLost
		status  retrysafe.Status
		rec     retrysafe.Record
	}
)

// linearState is the record in the model, packed so that states can be compared. blind means that
// no reply has contained its fence: then the first reply with a fence sets it.
type linearState struct {
	packed string
	blind  bool
}

func (s linearState) row() (row protocol.Row) {
	if s.packed != "" {
		row, _ = protocol.ParseRow([]byte(s.packed))
	}
	return row
}

func stateOf(row protocol.Row, blind bool) linearState {
	packed, err := row.AppendBinary(nil)
	if err != nil || row.State == 0 {
		return linearState{}
	}
	return linearState{string(packed), blind}
}

// linearModel is one key, with one call after the other.
var linearModel = porcupine.Model{
	Init: func() any { return linearState{} },
	Step: func(state, input, output any) (bool, any) {
		return linearStep(state.(linearState), input.(linearCall).request, output.(linearReply)) //nolint:errcheck,forcetypeassert // they are
	},
}

func linearStep(s linearState, request any, told linearReply) (bool, linearState) {
	row := s.row()
	switch req := request.(type) {
	case retrysafe.AcquireRequest:
		before := row.Fence
		if s.blind && req.IfFence == before { // no caller can know a fence that no reply contained
			req.IfFence++
		}
		next, status, _, err := protocol.Acquire(row, linearNow, 0, &req)
		if err != nil {
			return false, s
		}
		won := status == retrysafe.Won && next.Attempt != row.Attempt
		blind := s.blind || won
		if told.unknown {
			return true, stateOf(next, blind)
		}
		if told.status != status {
			return false, s
		}
		if won && told.rec.Fence <= before {
			return false, s
		}
		return told.shows(&next, blind)
	case retrysafe.ExtendRequest:
		next, err := protocol.Extend(row, linearNow, &req)
		return s.ended(told, next, err)
	case retrysafe.CompleteRequest:
		next, _, err := protocol.Complete(row, linearNow, &req)
		if ok, after := s.ended(told, next, err); !ok || told.unknown || told.lost {
			return ok, after
		}
		return told.shows(&next, false)
	case retrysafe.ReleaseRequest:
		next, _, err := protocol.Release(row, linearNow, &req)
		return s.ended(told, next, err)
	}
	if told.unknown {
		return true, s
	}
	return told.shows(&row, s.blind)
}

// ended returns the state after a call that only the holder may make.
func (s linearState) ended(told linearReply, next protocol.Row, err error) (bool, linearState) {
	lost := err != nil || s.blind
	if lost {
		return told.unknown || told.lost, s
	}
	return told.unknown || !told.lost, stateOf(next, false)
}

// shows compares the record that the caller got with the model. If the model has no fence, it takes
// the record's.
func (told *linearReply) shows(row *protocol.Row, blind bool) (bool, linearState) {
	if blind && row.State != 0 {
		if told.rec.Fence < row.Fence {
			return false, linearState{}
		}
		row.Fence = told.rec.Fence
	}
	want, got := row.Record(told.rec.Key, linearNow), told.rec
	same := want.State == got.State && want.Attempt == got.Attempt && want.Fence == got.Fence && want.Owner == got.Owner &&
		want.InDoubt() == got.InDoubt() && want.OnDoubt == got.OnDoubt && want.Cause == got.Cause &&
		string(want.Answer.Body) == string(got.Answer.Body) && string(want.Fingerprint) == string(got.Fingerprint)
	return same, stateOf(*row, false)
}

// linearCaller makes random calls for one key and records what it got.
type linearCaller struct {
	id    int
	s     retrysafe.Store
	key   retrysafe.StoreKey
	rnd   *rand.Rand
	begun time.Time
	// cuts returns what was lost so far, for a client that sends again by itself: a call may then
	// have been applied once more.
	cuts func() int64

	owner retrysafe.Owner
	fence retrysafe.Fence
	seen  retrysafe.Fence // by a Lookup
	ops   []porcupine.Operation
}

func (c *linearCaller) ask(ctx context.Context, request any, call func(context.Context) (retrysafe.Acquired, error)) retrysafe.Acquired {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	op := porcupine.Operation{ClientId: c.id, Input: linearCall{request}, Call: time.Since(c.begun).Nanoseconds()}
	before := c.cuts()
	got, err := call(ctx)
	told := linearReply{status: got.Status, rec: got.Record, lost: errors.Is(err, retrysafe.ErrLeaseLost)}
	told.unknown = err != nil && !told.lost
	op.Output, op.Return = told, time.Since(c.begun).Nanoseconds()
	c.ops = append(c.ops, op)
	for range min(c.cuts()-before, 3) {
		op.Output = linearReply{unknown: true}
		c.ops = append(c.ops, op)
	}
	return got
}

func (c *linearCaller) step(ctx context.Context) {
	switch n := c.rnd.IntN(20); {
	case n < 7:
		if c.rnd.IntN(3) > 0 { // else the same as before, as after a lost reply
			c.owner = retrysafe.Owner{byte(c.id + 1), byte(c.rnd.IntN(256)), byte(c.rnd.IntN(256))}
		}
		req := retrysafe.AcquireRequest{
			Key: c.key, Owner: c.owner, Lease: time.Hour, Retention: 24 * time.Hour, OnDoubt: retrysafe.Refuse, Fingerprint: []byte{1, byte(c.rnd.IntN(8) / 7)},
		}
		if c.rnd.IntN(4) == 0 {
			req.OnDoubt = retrysafe.Reexecute
		}
		if c.seen != 0 && c.rnd.IntN(3) == 0 {
			req.IfFence, req.Force = c.seen, c.rnd.IntN(2) == 0
		}
		got := c.ask(ctx, req, func(ctx context.Context) (retrysafe.Acquired, error) { return c.s.Acquire(ctx, req) })
		if got.Status == retrysafe.Won {
			c.fence = got.Record.Fence
		}
	case n < 10:
		req := retrysafe.CompleteRequest{
			Key: c.key, Owner: c.owner, Fence: c.fence, State: retrysafe.StateCompleted,
			Answer: retrysafe.Answer{Codec: "raw", Kept: true, Body: fmt.Appendf(nil, "%d of caller %d", len(c.ops), c.id)},
		}
		if c.rnd.IntN(3) > 0 {
			req.State = retrysafe.StateFailed // which can be reopened
		}
		c.ask(ctx, req, func(ctx context.Context) (a retrysafe.Acquired, err error) {
			a.Record, err = c.s.Complete(ctx, req)
			return a, err
		})
	case n < 14:
		req := retrysafe.ReleaseRequest{Key: c.key, Owner: c.owner, Fence: c.fence, InDoubt: c.rnd.IntN(3) == 0, Cause: "a cause"}
		c.ask(ctx, req, func(ctx context.Context) (retrysafe.Acquired, error) {
			return retrysafe.Acquired{}, c.s.Release(ctx, req)
		})
	case n < 16:
		req := retrysafe.ExtendRequest{Key: c.key, Owner: c.owner, Fence: c.fence, Lease: time.Hour}
		c.ask(ctx, req, func(ctx context.Context) (retrysafe.Acquired, error) {
			return retrysafe.Acquired{}, c.s.Extend(ctx, req)
		})
	default:
		got := c.ask(ctx, nil, func(ctx context.Context) (a retrysafe.Acquired, err error) {
			a.Record, err = c.s.Lookup(ctx, c.key)
			return a, err
		})
		c.seen = got.Record.Fence
	}
}

// history runs callers on one key. A call whose outcome is unknown may take effect until the
// history is over.
func history(t *testing.T, s func(caller int) retrysafe.Store, key retrysafe.StoreKey, seed uint64, cuts func() int64) (ops []porcupine.Operation, unknown int) {
	t.Helper()
	const callers, steps = 4, 14
	begun := time.Now()
	all := make([]*linearCaller, callers)
	var wait sync.WaitGroup
	for i := range all {
		c := &linearCaller{id: i, s: s(i), key: key, rnd: rand.New(rand.NewPCG(seed, uint64(i))), begun: begun, cuts: cuts}
		all[i] = c
		wait.Go(func() {
			for range steps {
				c.step(t.Context())
			}
		})
	}
	wait.Wait()
	end := time.Since(begun).Nanoseconds()
	for _, c := range all {
		for _, op := range c.ops {
			if op.Output.(linearReply).unknown { //nolint:errcheck,forcetypeassert // it is
				op.Return = end
				unknown++
			}
			ops = append(ops, op)
		}
	}
	return ops, unknown
}

// linearRun makes histories on a store behind a proxy that loses messages, and checks each. It
// returns those that no order explains.
func linearRun(t *testing.T, adapter string, rounds int, wrap func(retrysafe.Store, *redisServer) retrysafe.Store) (bad [][]porcupine.Operation) {
	t.Helper()
	server := startRedis(t)
	p := startProxy(t, server.addr)
	var s retrysafe.Store = redisOn(t, p.through(t, adapter), nil)
	if wrap != nil {
		s = wrap(s, server)
	}
	seed := uint64(time.Now().UnixNano())
	weather := rand.New(rand.NewPCG(seed, 99))
	var cuts atomic.Int64
	known := func() int64 { return 0 }
	kinds := []cut{loseReply, loseReply, loseRequest, lateRequest}
	if adapter != "rueidis" {
		// what such a client sends again must not arrive twice: the store does not know about it
		kinds, known = kinds[:3], cuts.Load
	}
	p.setHook(func(string, int) cut { // under the proxy's lock
		if weather.IntN(30) == 0 {
			cuts.Add(1)
			return kinds[weather.IntN(len(kinds))]
		}
		return 0
	})
	ctx, stop := context.WithCancel(t.Context())
	delivered := make(chan int)
	go func() { // late messages arrive after a while
		n := 0
		for ctx.Err() == nil {
			time.Sleep(5 * time.Millisecond)
			n += p.deliver()
		}
		delivered <- n
	}()
	calls, unknowns, undecided := 0, 0, 0
	for round := range rounds {
		ops, unknown := history(t, func(int) retrysafe.Store { return s }, faultStoreKey(fmt.Sprint(round)), seed+uint64(round), known)
		calls, unknowns = calls+len(ops), unknowns+unknown
		switch porcupine.CheckOperationsTimeout(linearModel, ops, time.Minute) {
		case porcupine.Illegal:
			bad = append(bad, ops)
		case porcupine.Unknown:
			undecided++
		}
	}
	stop()
	t.Logf("seed %d: %d histories, %d calls, %d of them without an answer, %d came late, %d histories not decided in time, %d without an order",
		seed, rounds, calls, unknowns, <-delivered, undecided, len(bad))
	assert.True(t, undecided <= rounds/10, "nearly all histories are decided")
	return bad
}

// TestRedisLinearizable: whatever a proxy loses, some order of the calls for a key explains what
// its callers got.
func TestRedisLinearizable(t *testing.T) {
	t.Parallel()
	linearizable(t, 100)
}

func TestSoakRedisLinearizable(t *testing.T) {
	t.Parallel()
	rounds := 10
	if longSoak() {
		rounds = 5_000
	}
	linearizable(t, rounds)
}

func linearizable(t *testing.T, rounds int) {
	t.Helper()
	for adapter := range redisClients {
		t.Run(adapter, func(t *testing.T) {
			t.Parallel()
			for _, ops := range linearRun(t, adapter, rounds, nil) {
				for _, op := range ops {
					t.Logf("%9d-%9d caller %d: %s", op.Call, op.Return, op.ClientId, described(op))
				}
				t.Fatal("no order of these calls explains what their callers were told")
			}
		})
	}
}

// described returns a call and its answer in one line.
func described(op porcupine.Operation) (text string) {
	switch req := op.Input.(linearCall).request.(type) { //nolint:forcetypeassert // it is
	case retrysafe.AcquireRequest:
		text = fmt.Sprintf("acquire as %x, %v, fingerprint %x, if fence %d, force %v", req.Owner[:3], req.OnDoubt, req.Fingerprint, req.IfFence, req.Force)
	case retrysafe.ExtendRequest:
		text = fmt.Sprintf("extend as %x, fence %d", req.Owner[:3], req.Fence)
	case retrysafe.CompleteRequest:
		text = fmt.Sprintf("complete as %x, fence %d: %v, %q", req.Owner[:3], req.Fence, req.State, req.Answer.Body)
	case retrysafe.ReleaseRequest:
		text = fmt.Sprintf("release as %x, fence %d, in doubt %v", req.Owner[:3], req.Fence, req.InDoubt)
	default:
		text = "look"
	}
	told := op.Output.(linearReply) //nolint:errcheck,forcetypeassert // it is
	if told.unknown {
		return text + " -> no answer"
	}
	return fmt.Sprintf("%s -> lost %v, %v, owner %x, %v, answer %q", text, told.lost, told.status, told.rec.Owner[:3], told.rec, told.rec.Answer.Body)
}

// wiping is a store with a fault: Release of a finished record removes it.
type wiping struct {
	retrysafe.Store
	server *redisServer
}

func (w *wiping) Release(ctx context.Context, req retrysafe.ReleaseRequest) error {
	err := w.Store.Release(ctx, req)
	if errors.Is(err, retrysafe.ErrLeaseLost) {
		if rec, look := w.Lookup(ctx, req.Key); look == nil && rec.Owner == req.Owner && rec.State.Finished() {
			text, _ := req.Key.MarshalText()
			redisDo(w.server.addr, "DEL", "rs:"+string(text))
			return nil
		}
	}
	return err
}

// TestRedisLinearizableFails: the check finds a faulty store.
func TestRedisLinearizableFails(t *testing.T) {
	t.Parallel()
	bad := linearRun(t, "rueidis", 80, func(s retrysafe.Store, server *redisServer) retrysafe.Store { return &wiping{s, server} })
	assert.True(t, len(bad) > 0, "histories that no order explains")
}
