package protocol_test

import (
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/protocol"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// The clauses of the contract are tested through stores. These tests cover what a store cannot be
// made to do: clocks that go back, and times at the ends of their range.

var (
	me  = storeapi.Owner{1}
	you = storeapi.Owner{2}
)

const second protocol.Micros = 1_000_000

func ask(owner storeapi.Owner) *storeapi.AcquireRequest {
	return &storeapi.AcquireRequest{Owner: owner, Lease: 30 * time.Second, Retention: time.Hour, OnDoubt: storeapi.Refuse}
}

func won(t *testing.T, cur protocol.Row, now protocol.Micros, floor storeapi.Fence, req *storeapi.AcquireRequest) protocol.Row {
	t.Helper()
	next, status, write, err := protocol.Acquire(cur, now, floor, req)
	assert.NoError(t, err, "Acquire")
	assert.Equal(t, status, storeapi.StatusAcquired, "status of Acquire")
	assert.True(t, write, "a win is written")
	return next
}

func TestFenceNeverGoesBack(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		cur   protocol.Row
		now   protocol.Micros
		floor storeapi.Fence
		want  storeapi.Fence
	}{
		{"the clock", protocol.Row{}, minute, 0, storeapi.Fence(minute)},
		{"a removed record of the future", protocol.Row{}, minute, storeapi.Fence(minute) + 5, storeapi.Fence(minute) + 6},
		{"a record of the future", protocol.Row{State: storeapi.StateReleased, Fence: storeapi.Fence(minute) + 5}, minute, 0, storeapi.Fence(minute) + 6},
		{"an expired record of the future", protocol.Row{State: storeapi.StateCompleted, Expires: minute, Fence: storeapi.Fence(minute) + 5}, minute, 0, storeapi.Fence(minute) + 6},
		{"the clock after an old record", protocol.Row{State: storeapi.StateReleased, Fence: 5}, minute, 7, storeapi.Fence(minute)},
		{"a clock before 1970", protocol.Row{}, -minute, 0, 1},
		{"a clock that stands at zero", protocol.Row{State: storeapi.StateReleased, Fence: 1}, 0, 0, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, won(t, c.cur, c.now, c.floor, ask(me)).Fence, c.want, "fence")
		})
	}
}

func TestIssueKeepsTheFence(t *testing.T) {
	t.Parallel()
	used := protocol.Row{State: storeapi.StateCompleted, Expires: minute, Fence: storeapi.Fence(minute) + 5}
	issued, status, write := protocol.Issue(used, minute, &storeapi.IssueRequest{Owner: me, Retention: time.Hour})
	assert.Equal(t, status, storeapi.StatusAcquired, "status of Issue over an expired record")
	assert.True(t, write, "an issue is written")
	assert.Equal(t, won(t, issued, minute, 0, ask(you)).Fence, storeapi.Fence(minute)+6, "fence of the first use")
}

func TestSpansRoundUp(t *testing.T) {
	t.Parallel()
	req := ask(me)
	req.Lease, req.Retention = time.Nanosecond, 1500*time.Nanosecond
	r := won(t, protocol.Row{}, minute, 0, req)
	assert.Equal(t, r.LeaseEnd, minute+1, "end of a lease of a nanosecond")
	assert.Equal(t, r.Retention, 2, "retention of 1.5 microseconds")
	rec := r.Record(storeapi.StoreKey{}, minute)
	assert.Equal(t, rec.LeaseLeft, time.Microsecond, "lease left")
}

func TestRetentionAtTheEndsOfTime(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		retention time.Duration
		now       protocol.Micros
		never     bool
	}{
		{"for ever", storeapi.Forever, minute, true},
		{"a century", 100 * 365 * 24 * time.Hour, minute, false},
		{"almost for ever", storeapi.Forever - time.Hour, minute, true},
		{"for ever before 1970", storeapi.Forever, -minute, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := won(t, protocol.Row{}, c.now, 0, ask(me))
			done, write, err := protocol.Complete(r, c.now, &storeapi.CompleteRequest{
				Owner: me, Fence: r.Fence, State: storeapi.StateCompleted, Retention: c.retention,
			})
			assert.NoError(t, err, "Complete")
			assert.True(t, write, "an end is written")
			assert.True(t, !done.Expired(c.now), "it has not expired at once")
			assert.Equal(t, done.Expires == 0, c.never, "it never expires (expires %d)", done.Expires)
		})
	}
}

func TestNotAfterIsTheLastOfItsRepeats(t *testing.T) {
	t.Parallel()
	first, repeat, earlier := ask(me), ask(me), ask(me)
	first.NotAfter, repeat.NotAfter = protocol.Time(minute+second), protocol.Time(minute+5*second)
	earlier.NotAfter = protocol.Time(minute + 2*second)
	r := won(t, protocol.Row{}, minute, 0, first)
	r = won(t, r, minute, 0, repeat)
	r = won(t, r, minute, 0, earlier)
	r = won(t, r, minute, 0, ask(me))
	assert.Equal(t, r.NotAfter, minute+5*second, "limit of the record")
	gone, _, err := protocol.Release(r, minute, &storeapi.ReleaseRequest{Owner: me, Fence: r.Fence, Retention: time.Second})
	assert.NoError(t, err, "Release")
	_, status, _, err := protocol.Acquire(gone, minute+5*second, 0, repeat)
	assert.NoError(t, err, "the last moment of a late copy")
	assert.Equal(t, status, storeapi.StatusOwnerSpent, "status of a late copy at its last moment")
	_, _, _, err = protocol.Acquire(gone, minute+5*second+1, 0, repeat)
	assert.ErrorIs(t, err, storeapi.ErrTooLate, "a copy after its last moment")
}

func TestBoundaries(t *testing.T) {
	t.Parallel()
	r := won(t, protocol.Row{}, minute, 0, ask(me))
	end := r.LeaseEnd
	_, status, _, err := protocol.Acquire(r, end-1, 0, ask(you))
	assert.NoError(t, err, "Acquire")
	assert.Equal(t, status, storeapi.StatusInProgress, "status in the last microsecond of the lease")
	_, status, _, err = protocol.Acquire(r, end, 0, ask(you))
	assert.NoError(t, err, "Acquire")
	assert.Equal(t, status, storeapi.StatusInDoubt, "status when the lease has ended")
	before, at := r.Record(storeapi.StoreKey{}, end-1), r.Record(storeapi.StoreKey{}, end)
	assert.True(t, !before.InDoubt() && at.InDoubt(), "the record says the same as the status")

	done, _, err := protocol.Complete(r, end, &storeapi.CompleteRequest{Owner: me, Fence: r.Fence, State: storeapi.StateFailed})
	assert.NoError(t, err, "Complete")
	assert.True(t, !done.Expired(done.Expires-1), "kept in the last microsecond of the retention")
	assert.True(t, done.Expired(done.Expires), "gone when the retention has ended")

	late := ask(you)
	late.NotAfter = protocol.Time(minute)
	_, _, _, err = protocol.Acquire(protocol.Row{}, minute, 0, late)
	assert.NoError(t, err, "Acquire at its limit")
	_, _, _, err = protocol.Acquire(protocol.Row{}, minute+1, 0, late)
	assert.ErrorIs(t, err, storeapi.ErrTooLate, "Acquire past its limit")
}

func TestCompleteNeedsAnEnd(t *testing.T) {
	t.Parallel()
	r := won(t, protocol.Row{}, minute, 0, ask(me))
	for _, state := range []storeapi.State{0, storeapi.StateIssued, storeapi.StateInProgress, storeapi.StateReleased, 99} {
		_, write, err := protocol.Complete(r, minute, &storeapi.CompleteRequest{Owner: me, Fence: r.Fence, State: state})
		assert.True(t, err != nil && !write, "Complete with state %v is an error", state)
	}
}

func TestTextsForOperatorsAreClipped(t *testing.T) {
	t.Parallel()
	r := won(t, protocol.Row{}, minute, 0, ask(me))
	long := make([]byte, 5000)
	for i := range long {
		long[i] = 0xc3 // half a character
	}
	gone, _, err := protocol.Release(r, minute, &storeapi.ReleaseRequest{
		Owner: me, Fence: r.Fence, Cause: "a cause\xff", LastError: "é" + string(long),
	})
	assert.NoError(t, err, "Release")
	assert.Equal(t, gone.Cause, "a cause", "cause")
	assert.Equal(t, gone.LastError, "é", "last error")
	_, err = gone.AppendBinary(nil)
	assert.NoError(t, err, "AppendBinary of a clipped text")
}
