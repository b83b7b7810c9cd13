package shardstore

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"time"

	"github.com/retrysafe/retrysafe"
)

// copy gives the next home what was finished at the old one before the move. It is false where
// somebody else has come to the next home meanwhile: the survey that follows sees what became of
// that.
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
	// Whoever dies between the two calls leaves a record that the next survey completes, or that is
	// gone with its lease.
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

// copyTag begins the owner of a copy.
const copyTag = "copy"

// copyOwner is the owner of the copy of what an attempt has kept: the store gives a copy another
// fence, and whoever finished the original recognises it by this. The copy of a copy has the same
// owner.
func copyOwner(o retrysafe.Owner, fence retrysafe.Fence) (c retrysafe.Owner) {
	if string(o[:len(copyTag)]) == copyTag {
		return o
	}
	sum := sha256.Sum256(binary.BigEndian.AppendUint64(o[:], uint64(fence)))
	copy(c[copy(c[:], copyTag):], sum[:])
	return c
}

// alike tells whether two homes have the record of one attempt, or one of them a copy of it.
func alike(a, b *retrysafe.Record) bool {
	switch {
	case a.State == 0 || b.State == 0:
		return false
	case a.Owner == b.Owner:
		return true
	}
	return b.Owner == copyOwner(a.Owner, a.Fence) || a.Owner == copyOwner(b.Owner, b.Fence)
}
