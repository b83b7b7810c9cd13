package protocol

import (
	"fmt"

	"github.com/retrysafe/retrysafe/storeapi"
)

// Extend renews the holder's lease, and stores progress that is newer than the stored one. If it
// returns an error, there is nothing to write.
func Extend(cur Row, now Micros, req *storeapi.ExtendRequest) (Row, error) {
	if cur.Absent(now) || !cur.holds(req.Owner, req.Fence) || cur.State != storeapi.StateInProgress || cur.abandoned() {
		return cur, storeapi.ErrLeaseLost
	}
	cur.renew(now, Span(req.Lease))
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
	case cur.Absent(now) || !cur.holds(req.Owner, req.Fence):
		return cur, false, storeapi.ErrLeaseLost
	case cur.State.Finished():
		return cur, false, nil
	case cur.State != storeapi.StateInProgress:
		return cur, false, storeapi.ErrLeaseLost
	}
	// An expired lease does not matter: the holder finishes unless another attempt has taken over.
	cur.State, cur.Answer, cur.Cause = req.State, req.Answer, ""
	cur.Asks, cur.DoubtBegan, cur.Earlier, cur.EarlierCut = false, 0, nil, false
	cur.end(now, Span(req.Retention))
	return cur, true, nil
}

// Release releases the key or puts it in doubt.
func Release(cur Row, now Micros, req *storeapi.ReleaseRequest) (next Row, write bool, err error) {
	if cur.Absent(now) || !cur.holds(req.Owner, req.Fence) {
		return cur, false, storeapi.ErrLeaseLost
	}
	switch {
	case cur.State == storeapi.StateReleased && !req.InDoubt, cur.abandoned() && req.InDoubt:
		return cur, false, nil // a repeated call
	case cur.State != storeapi.StateInProgress:
		return cur, false, storeapi.ErrLeaseLost
	}
	cur.Cause, cur.LastError = clip(req.Cause, maxCause), clip(req.LastError, maxLastError)
	if req.InDoubt {
		if cur.DoubtBegan == 0 && cur.InDoubt(now) {
			cur.DoubtBegan = cur.LeaseEnd // it began before it was given up
		}
		cur.end(now, Span(req.Retention))
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
	cur.end(now, Span(req.Retention))
	// A late copy of the Acquire must still find the record, or it would succeed.
	if cur.Expires != 0 {
		cur.Expires = max(cur.Expires, cur.NotAfter+1)
	}
	return cur, true, nil
}
