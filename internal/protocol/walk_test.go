package protocol_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/protocol"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// TestWalk makes long random sequences of calls on one key, like three callers and an operator
// whose requests come late, twice or not at all. After each call it checks what must always hold.
func TestWalk(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		w := &walk{rand: rand.New(rand.NewPCG(seed, 1)), now: minute, policy: storeapi.Refuse}
		if seed%3 == 0 {
			w.policy = storeapi.Reexecute
		}
		for range 200 {
			if err := w.step(); err != nil {
				t.Fatalf("seed %d: %v; the calls were %v", seed, err, w.log)
			}
		}
	}
}

type walk struct {
	rand   *rand.Rand
	row    protocol.Row
	floor  storeapi.Fence
	now    protocol.Micros
	policy storeapi.OnDoubt

	highest storeapi.Fence // of all successful claims
	running bool           // under Refuse: a start that was not called back or resolved
	answer  []byte         // the answer that a caller got; nil: none did
	held    []protocol.Row // what holders know of their attempts, including stale ones
	log     []string       // what happened
	owners  [3]storeapi.Owner
}

func (w *walk) step() error {
	w.now += w.rand.Int64N(3) * second
	switch w.rand.IntN(8) {
	case 0, 1:
		return w.acquire(false)
	case 2:
		return w.acquire(true)
	case 3, 4, 5:
		return w.end()
	case 6:
		w.now += w.rand.Int64N(40) * second
		return w.sweep()
	}
	return w.cross()
}

// acquire is a call of one of three owners, new or repeated, or of an operator.
func (w *walk) acquire(resolve bool) error {
	i := w.rand.IntN(len(w.owners))
	if w.owners[i] == (storeapi.Owner{}) || w.rand.IntN(3) == 0 {
		w.owners[i] = storeapi.Owner{byte(i), byte(w.rand.Uint32()), byte(w.rand.Uint32()), byte(w.rand.Uint32())}
	}
	req := &storeapi.AcquireRequest{Owner: w.owners[i], Lease: 10 * time.Second, Retention: 20 * time.Second, OnDoubt: w.policy}
	if resolve {
		req.IfFence, req.Force = w.row.Fence, w.rand.IntN(2) == 0
	} else if w.rand.IntN(4) == 0 {
		req.OnDoubt = storeapi.Reexecute // another configuration
	}
	before := w.row
	next, status, write, err := protocol.Acquire(before, w.now, w.floor, req)
	w.log = append(w.log, fmt.Sprintf("acquire by %x if %d: %d", req.Owner[:2], req.IfFence, status))
	if err != nil {
		return err
	}
	if write {
		w.row = next
	}
	switch {
	case status == storeapi.StatusFinished && w.answer != nil && !bytes.Equal(next.Answer.Body, w.answer):
		return fmt.Errorf("the answer was %q and is %q", w.answer, next.Answer.Body)
	case status == storeapi.StatusFinished:
		w.answer = next.Answer.Body
	case status != storeapi.StatusAcquired && write:
		return fmt.Errorf("status %d has changed the record", status)
	case status != storeapi.StatusAcquired:
	case next.Fence == before.Fence && next.Owner == before.Owner: // a repeated call
	case next.Fence <= w.highest:
		return fmt.Errorf("fence %d after %d", next.Fence, w.highest)
	case w.running && next.OnDoubt == storeapi.Refuse && req.IfFence == 0:
		return fmt.Errorf("a second start under Refuse")
	default:
		w.highest, w.running = next.Fence, next.OnDoubt == storeapi.Refuse
		w.answer = nil
		w.held = append(w.held, next)
	}
	return nil
}

// end is a call of a holder, most likely the last one.
func (w *walk) end() error {
	if len(w.held) == 0 {
		return nil
	}
	h := w.held[max(0, len(w.held)-1-w.rand.IntN(3))]
	before, current := w.row, h.Fence == w.row.Fence && h.Owner == w.row.Owner && !w.row.Absent(w.now)
	var next protocol.Row
	var write bool
	var err error
	switch w.rand.IntN(4) {
	case 0:
		next, err = protocol.Extend(before, w.now, &storeapi.ExtendRequest{Owner: h.Owner, Fence: h.Fence, Lease: 10 * time.Second})
		write = err == nil
		w.log = append(w.log, fmt.Sprintf("extend %d: %v", h.Fence, err))
	case 1:
		body := fmt.Appendf(nil, "%d-%d", h.Fence, w.rand.IntN(100))
		next, write, err = protocol.Complete(before, w.now, &storeapi.CompleteRequest{
			Owner: h.Owner, Fence: h.Fence, State: storeapi.StateCompleted, Answer: storeapi.Answer{Body: body, Kept: true},
		})
		w.log = append(w.log, fmt.Sprintf("complete %d: %v", h.Fence, err))
		if err == nil {
			if w.answer != nil && !bytes.Equal(next.Answer.Body, w.answer) {
				return fmt.Errorf("the answer was %q and Complete tells %q", w.answer, next.Answer.Body)
			}
			w.answer, w.running = next.Answer.Body, false
		}
	default:
		req := &storeapi.ReleaseRequest{Owner: h.Owner, Fence: h.Fence, InDoubt: w.rand.IntN(2) == 0}
		next, write, err = protocol.Release(before, w.now, req)
		w.log = append(w.log, fmt.Sprintf("release %d in doubt %v: %v", h.Fence, req.InDoubt, err))
		if err == nil && !req.InDoubt {
			w.running = false
		}
	}
	if err == nil && !current {
		return fmt.Errorf("a call with fence %d was accepted on a record with fence %d", h.Fence, before.Fence)
	}
	if err == nil && before.State.Finished() && write {
		return fmt.Errorf("a finished record was changed")
	}
	if write {
		w.row = next
	}
	return nil
}

func (w *walk) sweep() error {
	if !w.row.Expired(w.now) {
		return nil
	}
	w.log = append(w.log, "sweep")
	if w.row.State == storeapi.StateInProgress && w.row.OnDoubt == storeapi.Refuse {
		return fmt.Errorf("a record in doubt under Refuse has expired")
	}
	if w.row.State != 0 {
		w.floor = max(w.floor, w.row.Fence)
	}
	w.row, w.answer = protocol.Row{}, nil
	return nil
}

// cross converts the row to its packed form and back, like every call of a store that uses it.
func (w *walk) cross() error {
	if w.row.State == 0 {
		return nil
	}
	packed, err := w.row.AppendBinary(nil)
	if err != nil {
		return err
	}
	w.row, err = protocol.ParseRow(packed)
	return err
}
