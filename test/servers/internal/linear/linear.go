// Package linear records histories of one key and has the model that explains them.
package linear

import (
	"fmt"

	"github.com/anishathalye/porcupine"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/protocol"
	"github.com/retrysafe/retrysafe/stores/storeapi"
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
		status  storeapi.Status
		rec     retrysafe.Record
	}
)

// linearState is the record in the model, packed so that states can be compared. blind means that
// no reply has contained its fence: then the first reply with a fence sets it.
type linearState struct {
	packed string
	blind  bool
}

func (s linearState) parseRow() (row protocol.Row) {
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

// Model is one key, with one call after the other.
var Model = porcupine.Model{
	Init: func() any { return linearState{} },
	Step: func(state, input, output any) (bool, any) {
		return linearStep(state.(linearState), input.(linearCall).request, output.(linearReply)) //nolint:errcheck,forcetypeassert // they are
	},
}

func linearStep(s linearState, request any, told linearReply) (bool, linearState) {
	row := s.parseRow()
	switch req := request.(type) {
	case storeapi.AcquireRequest:
		before := row.Fence
		if s.blind && req.IfFence == before { // no caller can know a fence that no reply contained
			req.IfFence++
		}
		next, status, _, err := protocol.Acquire(row, linearNow, 0, &req)
		if err != nil {
			return false, s
		}
		won := status == storeapi.StatusAcquired && next.Attempt != row.Attempt
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
		return told.matchesRow(&next, blind)
	case storeapi.ExtendRequest:
		next, err := protocol.Extend(row, linearNow, &req)
		return s.afterHolderCall(told, next, err)
	case storeapi.CompleteRequest:
		next, _, err := protocol.Complete(row, linearNow, &req)
		if ok, after := s.afterHolderCall(told, next, err); !ok || told.unknown || told.lost {
			return ok, after
		}
		return told.matchesRow(&next, false)
	case storeapi.ReleaseRequest:
		next, _, err := protocol.Release(row, linearNow, &req)
		return s.afterHolderCall(told, next, err)
	}
	if told.unknown {
		return true, s
	}
	return told.matchesRow(&row, s.blind)
}

// afterHolderCall returns the state after a call that only the holder may make.
func (s linearState) afterHolderCall(told linearReply, next protocol.Row, err error) (bool, linearState) {
	lost := err != nil || s.blind
	if lost {
		return told.unknown || told.lost, s
	}
	return told.unknown || !told.lost, stateOf(next, false)
}

// matchesRow compares the record that the caller got with the model. If the model has no fence, it
// takes the record's.
func (told *linearReply) matchesRow(row *protocol.Row, blind bool) (bool, linearState) {
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

// Described returns a call and its answer in one line.
func Described(op porcupine.Operation) (text string) {
	switch req := op.Input.(linearCall).request.(type) { //nolint:forcetypeassert // it is
	case storeapi.AcquireRequest:
		text = fmt.Sprintf("acquire as %x, %v, fingerprint %x, if fence %d, force %v", req.Owner[:3], req.OnDoubt, req.Fingerprint, req.IfFence, req.Force)
	case storeapi.ExtendRequest:
		text = fmt.Sprintf("extend as %x, fence %d", req.Owner[:3], req.Fence)
	case storeapi.CompleteRequest:
		text = fmt.Sprintf("complete as %x, fence %d: %v, %q", req.Owner[:3], req.Fence, req.State, req.Answer.Body)
	case storeapi.ReleaseRequest:
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
