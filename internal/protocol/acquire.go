package protocol

import (
	"bytes"
	"cmp"
	"fmt"

	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// Acquire decides on req for the row cur (zero: absent) at the store's time now. floor is the
// largest fence that the store has ever removed. It returns the next row, and whether that must be
// written.
func Acquire(cur Row, now Micros, floor storeapi.Fence, req *storeapi.AcquireRequest) (next Row, status storeapi.Status, write bool, err error) {
	var notAfter Micros
	if !req.NotAfter.IsZero() {
		if notAfter = req.NotAfter.UnixMicro(); now > notAfter {
			return cur, 0, false, storeapi.ErrTooLate
		}
	}
	if req.Finish != nil && !req.Finish.State.Finished() {
		return cur, 0, false, fmt.Errorf("retrysafe: Acquire that finishes with state %v; use completed or failed", req.Finish.State)
	}
	if status = decideAcquire(&cur, now, req); status != storeapi.StatusAcquired {
		return cur, status, false, nil
	}
	absent := cur.Absent(now)
	if cur.State == storeapi.StateInProgress && cur.Owner == req.Owner && !absent {
		cur.renewLease(now, ToMicros(req.Lease))
		// A late copy of this repeated call must also find the record.
		cur.NotAfter = max(cur.NotAfter, notAfter)
		return cur, status, true, nil
	}
	next = Row{
		State: storeapi.StateInProgress, OnDoubt: cmp.Or(req.OnDoubt, storeapi.Refuse), Attempt: 1, Owner: req.Owner,
		Fence: max(cur.Fence+1, floor+1, storeapi.Fence(max(now, 0))),
		Asks:  req.Asks, Fingerprint: req.Fingerprint, Binding: req.Binding, Retention: ToMicros(req.Retention), NotAfter: notAfter,
		Created: now, Updated: now,
	}
	if !absent {
		next.inheritFields(&cur, now, req)
	}
	if req.Finish != nil {
		next.setFinished(now, req)
	} else {
		next.renewLease(now, ToMicros(req.Lease))
	}
	return next, status, true, nil
}

// inheritFields sets what a new row keeps of the row before it.
func (r *Row) inheritFields(cur *Row, now Micros, req *storeapi.AcquireRequest) {
	r.Attempt = cur.Attempt + 1
	r.Created, r.Issued, r.LastError = cur.Created, cur.Issued, cur.LastError
	if cur.isUnfinished() {
		r.Answer = cur.Answer
		if req.Asks && cur.State == storeapi.StateInProgress {
			r.DoubtBegan = cur.doubtSince(now)
		}
		r.Earlier, r.EarlierCut = cur.Earlier, cur.EarlierCut
		if cur.mayHaveWorked() {
			r.addEarlier(storeapi.Worked{Attempt: cur.Attempt, Fence: cur.Fence})
		}
	}
	if req.IfFence != 0 {
		r.OnDoubt = cur.OnDoubt
		r.Retention = cur.Retention
	}
	if req.IfFence != 0 || r.Fingerprint == nil {
		r.Fingerprint = cur.Fingerprint
	}
	if req.IfFence != 0 || r.Binding == nil {
		r.Binding = cur.Binding
	}
}

// Finished returns the answer to req if the record is finished, which needs no write; zero
// otherwise.
func Finished(rec *storeapi.Record, req *storeapi.AcquireRequest) storeapi.Status {
	row := Row{
		State: rec.State, OnDoubt: rec.OnDoubt, Owner: rec.Owner, Fence: rec.Fence, Issued: rec.Issued, Fingerprint: rec.Fingerprint, Binding: rec.Binding,
	}
	if status := decideAcquire(&row, 0, req); rec.State.Finished() && status != storeapi.StatusAcquired {
		return status
	}
	return 0
}

// decideAcquire is the table of docs/architecture.md; the first match decides.
func decideAcquire(cur *Row, now Micros, req *storeapi.AcquireRequest) storeapi.Status {
	absent, mine := cur.Absent(now), cur.Owner == req.Owner
	live := cur.State == storeapi.StateInProgress && cur.LeaseEnd > now
	switch {
	case absent && req.IfFence != 0:
		return storeapi.StatusFenceChanged
	case req.MustBeIssued && (absent || !cur.Issued):
		return storeapi.StatusNotIssued
	case absent:
		return storeapi.StatusAcquired
	case req.Finish != nil && (req.IfFence == 0 || cur.Fence != req.IfFence):
		return storeapi.StatusFenceChanged
	case mine && cur.State == storeapi.StateReleased:
		return storeapi.StatusOwnerSpent
	case req.IfFence != 0:
		return decideIfFence(cur, live, mine, req)
	case len(cur.Binding) > 0 && len(req.Binding) > 0 && !bytes.Equal(cur.Binding, req.Binding):
		return storeapi.StatusPrincipalChanged
	case fingerprintsDiffer(cur.Fingerprint, req.Fingerprint):
		return storeapi.StatusMismatch
	case cur.State.Finished():
		return storeapi.StatusFinished
	case cur.State != storeapi.StateInProgress: // released or issued
		return storeapi.StatusAcquired
	case mine && !cur.isPutInDoubt():
		return storeapi.StatusAcquired
	case mine:
		return storeapi.StatusInDoubt
	case live:
		return storeapi.StatusInProgress
	case cur.OnDoubt == storeapi.Reexecute && req.OnDoubt == storeapi.Reexecute:
		return storeapi.StatusAcquired
	}
	return storeapi.StatusInDoubt
}

// decideIfFence is the compare-and-set of an operator or a redrive. It never changes a completed
// record, since a caller may have seen it.
func decideIfFence(cur *Row, live, mine bool, req *storeapi.AcquireRequest) storeapi.Status {
	switch {
	case mine && cur.State == storeapi.StateInProgress && !cur.isPutInDoubt():
		return storeapi.StatusAcquired // a repeated call of the owner that acquired it
	case cur.Fence != req.IfFence:
		return storeapi.StatusFenceChanged
	case cur.State == storeapi.StateCompleted:
		return storeapi.StatusFinished
	case live && !req.Force:
		return storeapi.StatusInProgress
	}
	return storeapi.StatusAcquired
}

// fingerprintsDiffer compares fingerprints. Their first byte is the version of the algorithm;
// fingerprints of different versions cannot be compared.
func fingerprintsDiffer(a, b []byte) bool {
	return len(a) > 0 && len(b) > 0 && a[0] == b[0] && !bytes.Equal(a, b)
}

// FinishRow returns the row of a request with Finish, without what the store and the record before
// give it: owner, fence, attempt, times.
func FinishRow(req *storeapi.AcquireRequest) Row {
	r := Row{
		State: req.Finish.State, OnDoubt: storeapi.Refuse, Answer: req.Finish.Answer,
		Fingerprint: req.Fingerprint, Binding: req.Binding, Retention: ToMicros(req.Retention),
	}
	if req.OnDoubt == storeapi.Reexecute {
		r.OnDoubt = storeapi.Reexecute
	}
	if !req.NotAfter.IsZero() {
		r.NotAfter = req.NotAfter.UnixMicro()
	}
	r.Cause, _ = Clip(req.Finish.Cause, "")
	return r
}

// setFinished makes a new row that of finished work.
func (r *Row) setFinished(now Micros, req *storeapi.AcquireRequest) {
	won := *r
	*r = FinishRow(req)
	r.Owner, r.Fence, r.Attempt, r.Created, r.Issued = won.Owner, won.Fence, won.Attempt, won.Created, won.Issued
	r.startRetention(now, r.Retention)
}

// OwnFinish returns a copy of f that shares no memory with it, or nil.
func OwnFinish(f *storeapi.Finish) *storeapi.Finish {
	if f == nil {
		return nil
	}
	own := *f
	own.Answer.Body = bytes.Clone(f.Answer.Body)
	return &own
}

// Issue decides on a key that the server issues.
func Issue(cur Row, now Micros, req *storeapi.IssueRequest) (next Row, status storeapi.Status, write bool) {
	if cur.Absent(now) {
		return Row{
			State: storeapi.StateIssued, OnDoubt: storeapi.Refuse, Issued: true, Owner: req.Owner, Fence: cur.Fence,
			Created: now, Updated: now, Expires: expiryAfter(now, ToMicros(req.Retention)),
		}, storeapi.StatusAcquired, true
	}
	if cur.State == storeapi.StateIssued && cur.Owner == req.Owner {
		return cur, storeapi.StatusAcquired, false
	}
	return cur, storeapi.StatusAlreadyIssued, false
}
