package shardstore

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"time"

	"github.com/retrysafe/retrysafe"
)

// copy copies a record to the next home that was finished at the old one before the move. It
// returns false if another caller has claimed the key at the next home meanwhile; the next survey
// sees the outcome of that.
func (a atlas) copy(ctx context.Context, name, home string, listed *retrysafe.Record) (bool, error) {
	rec, err := a[name].Lookup(ctx, listed.Key) // with its body
	if err != nil {
		return false, failed(name, err)
	}
	if !rec.State.Finished() || rec.Owner != listed.Owner {
		return false, nil
	}
	if rec.Issued {
		issuer, ok := a[home].(retrysafe.Issuer)
		if !ok {
			return false, nil
		}
		if _, err := issuer.Issue(ctx, retrysafe.IssueRequest{Key: rec.Key, Owner: copyOwner(rec.Owner, rec.Fence), Retention: writeLease}); err != nil {
			return false, failed(home, err)
		}
	}
	// If the process dies between the two calls, the next survey completes the record, or it is
	// gone after its lease.
	req := retrysafe.AcquireRequest{
		Key: rec.Key, Owner: copyOwner(rec.Owner, rec.Fence), Lease: writeLease, Retention: time.Microsecond, OnDoubt: retrysafe.Reexecute,
		Fingerprint: rec.Fingerprint, Binding: rec.Binding, MinFence: rec.Fence,
	}
	got, err := a[home].Acquire(ctx, req)
	if err != nil || got.Status != retrysafe.Won {
		return false, failedIf(home, err)
	}
	_, err = a[home].Complete(ctx, copyTo(&rec, &got.Record))
	if errors.Is(err, retrysafe.ErrLeaseLost) {
		return false, nil
	}
	return err == nil, failedIf(home, err)
}

// copyTag is the beginning of the owner of a copy.
const copyTag = "copy"

// copyOwner returns the owner of the copy of an attempt's record. The store gives a copy another
// fence, so the holder of the original recognises it by this owner. A copy of a copy has the same
// owner.
func copyOwner(o retrysafe.Owner, fence retrysafe.Fence) (c retrysafe.Owner) {
	if string(o[:len(copyTag)]) == copyTag {
		return o
	}
	sum := sha256.Sum256(binary.BigEndian.AppendUint64(o[:], uint64(fence)))
	copy(c[copy(c[:], copyTag):], sum[:])
	return c
}

// alike reports whether two homes have the record of one attempt, or one of them has a copy of it.
func alike(a, b *retrysafe.Record) bool {
	switch {
	case a.State == 0 || b.State == 0:
		return false
	case a.Owner == b.Owner:
		return true
	}
	return b.Owner == copyOwner(a.Owner, a.Fence) || a.Owner == copyOwner(b.Owner, b.Fence)
}
