package protocol

import (
	"bytes"
	"slices"

	"github.com/retrysafe/retrysafe/storeapi"
)

// copiesEnded reports whether the request copies a record that is finished or released.
func copiesEnded(req *storeapi.AcquireRequest) bool {
	return req.Copy != nil && (req.Copy.State.Finished() || req.Copy.State == storeapi.StateReleased)
}

// CopyRow returns the row that continues the record of another store. It has no owner, fence,
// lease, update or expiry yet. Its Retention is how long an ended copy is kept from now on.
func CopyRow(req *storeapi.AcquireRequest) Row {
	c := req.Copy
	r := Row{
		State: storeapi.StateInProgress, OnDoubt: storeapi.Refuse, Issued: c.Issued, Attempt: c.Attempt,
		Asks: c.Asks, Earlier: c.Earlier, EarlierCut: c.EarlierCut, Fingerprint: c.Fingerprint, Binding: c.Binding,
		Created: c.Created.UnixMicro(), Retention: Span(req.Retention), Answer: c.Answer,
	}
	if c.Asks && !c.DoubtSince.IsZero() && c.State == storeapi.StateInProgress {
		r.DoubtBegan = c.DoubtSince.UnixMicro()
	}
	r.Cause, r.LastError = Clip(c.Cause, c.LastError)
	if !req.NotAfter.IsZero() {
		r.NotAfter = req.NotAfter.UnixMicro()
	}
	if c.OnDoubt == storeapi.Reexecute {
		r.OnDoubt = storeapi.Reexecute
	}
	if copiesEnded(req) {
		r.State, r.Retention = c.State, forever
		if !c.Expires.IsZero() {
			r.Retention = max(Span(c.Expires.Sub(c.Now)), 1)
		}
	}
	return r
}

// OwnCopy returns a copy of c that shares no memory with it, or nil.
func OwnCopy(c *storeapi.Record) *storeapi.Record {
	if c == nil {
		return nil
	}
	own := *c
	own.Earlier, own.Answer.Body = slices.Clone(c.Earlier), bytes.Clone(c.Answer.Body)
	own.Fingerprint, own.Binding = bytes.Clone(c.Fingerprint), bytes.Clone(c.Binding)
	return &own
}

// CopySize returns the number of bytes in the answer of c, which may be nil.
func CopySize(c *storeapi.Record) int {
	if c == nil {
		return 0
	}
	return len(c.Answer.Body)
}

// continues makes a new row one that continues req.Copy.
func (r *Row) continues(req *storeapi.AcquireRequest) {
	owner, fence, now := r.Owner, r.Fence, r.Updated
	*r = CopyRow(req)
	r.Owner, r.Fence, r.Updated = owner, fence, now
}
