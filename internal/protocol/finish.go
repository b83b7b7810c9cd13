package protocol

import (
	"fmt"

	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// Extend renews the holder's lease, and stores progress that is newer than the stored one. If it
// returns an error, there is nothing to write.
func Extend(cur Row, now Micros, req *storeapi.ExtendRequest) (Row, error) {
	if cur.Absent(now) || !cur.isHeldBy(req.Owner, req.Fence) || cur.State != storeapi.StateInProgress || cur.isPutInDoubt() {
		return cur, storeapi.ErrLeaseLost
	}
	cur.renewLease(now, ToMicros(req.Lease))
	if req.Works {
		cur.Asks, cur.DoubtBegan = false, 0
	}
	if p := req.Progress; p != nil && p.Size > cur.Answer.Size {
		cur.Answer = *p
	}
	return cur, nil
}

// Complete stores the answer. A repeated call gets the stored row, with nothing to write.
func Complete(cur Row, now Micros, req *storeapi.CompleteRequest) (next Row, write bool, err error) {
	if !req.State.Finished() {
		return cur, false, fmt.Errorf("retrysafe: Complete with state %v; use completed or failed", req.State)
	}
	switch {
	case cur.Absent(now) || !cur.isHeldBy(req.Owner, req.Fence):
		return cur, false, storeapi.ErrLeaseLost
	case cur.State.Finished():
		return cur, false, nil
	case cur.State != storeapi.StateInProgress:
		return cur, false, storeapi.ErrLeaseLost
	}
	// An expired lease does not matter: the holder finishes unless another attempt has taken over.
	cur.State, cur.Answer, cur.Cause = req.State, req.Answer, ""
	cur.Asks, cur.DoubtBegan, cur.Earlier, cur.EarlierCut = false, 0, nil, false
	cur.startRetention(now, ToMicros(req.Retention))
	return cur, true, nil
}

// Release releases the key or puts it in doubt.
func Release(cur Row, now Micros, req *storeapi.ReleaseRequest) (next Row, write bool, err error) {
	if cur.Absent(now) || !cur.isHeldBy(req.Owner, req.Fence) {
		return cur, false, storeapi.ErrLeaseLost
	}
	switch {
	case cur.State == storeapi.StateReleased && !req.InDoubt, cur.isPutInDoubt() && req.InDoubt:
		return cur, false, nil // a repeated call
	case cur.State != storeapi.StateInProgress:
		return cur, false, storeapi.ErrLeaseLost
	}
	cur.Cause, cur.LastError = clipText(req.Cause, maxCause), clipText(req.LastError, maxLastError)
	if req.InDoubt {
		if cur.DoubtBegan == 0 && cur.InDoubt(now) {
			cur.DoubtBegan = cur.LeaseEnd // it began before it was given up
		}
		cur.startRetention(now, ToMicros(req.Retention))
		if cur.OnDoubt == storeapi.Refuse {
			cur.Expires = 0
		}
		return cur, true, nil
	}
	if !cur.HasProgress() {
		// otherwise the next call continues what this one has begun, so it must be the same request
		cur.Fingerprint, cur.Binding = nil, nil
	}
	cur.State = storeapi.StateReleased
	cur.startRetention(now, ToMicros(req.Retention))
	// A late copy of the Acquire must still find the record, or it would succeed.
	if cur.Expires != 0 {
		cur.Expires = max(cur.Expires, cur.NotAfter+1)
	}
	return cur, true, nil
}

// Forget removes from a finished row what tells of a person, and leaves that it is finished. A
// repeated call has nothing to write.
func Forget(cur Row, now Micros, req *storeapi.ForgetRequest) (next Row, write bool, err error) {
	switch {
	case cur.Absent(now) || cur.Fence != req.Fence:
		return cur, false, storeapi.ErrFenceChanged
	case !cur.State.Finished():
		return cur, false, storeapi.ErrInProgress
	case cur.isForgotten():
		return cur, false, nil
	}
	cur.Answer, cur.Fingerprint, cur.Binding, cur.LastError = storeapi.Answer{}, nil, nil, ""
	cur.Updated = now
	return cur, true, nil
}

// isForgotten reports whether a finished row has nothing that Forget removes.
func (r *Row) isForgotten() bool {
	a := &r.Answer
	return a.Codec == "" && a.Body == nil && !a.Kept && a.Size == 0 && r.Fingerprint == nil && r.Binding == nil && r.LastError == ""
}
