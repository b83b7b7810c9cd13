package shardstore

import (
	"context"
	"crypto/sha256"
	"encoding/binary"

	"github.com/retrysafe/retrysafe/storeapi"
)

// copy copies a record to the next home that was finished or released at the old one before the
// move, and of which the next home has there. It returns false if another caller has claimed the
// key at the next home meanwhile; the next survey sees the outcome of that.
func (a atlas) copy(ctx context.Context, name, home string, listed, there *storeapi.Record) (bool, error) {
	rec, err := a[name].Lookup(ctx, listed.Key) // with its body
	if err != nil {
		return false, failed(name, err)
	}
	if rec.State != listed.State || rec.Fence != listed.Fence {
		return false, nil
	}
	req := storeapi.AcquireRequest{
		Key: rec.Key, Owner: copyOwner(rec.Owner, rec.Fence), Lease: writeLease, Retention: writeLease,
		MinFence: rec.Fence, IfFence: there.Fence, Copy: &rec,
	}
	if rec.State == storeapi.StateReleased {
		// Its owner must not acquire the key there either. The attempts that may have worked keep
		// the fence under which they did.
		req.Owner = rec.Owner
		rec.Earlier, rec.Asks = rec.MayHaveWorked(), true
		if most := 16; len(rec.Earlier) > most {
			rec.Earlier, rec.EarlierCut = rec.Earlier[len(rec.Earlier)-most:], true
		}
	}
	got, err := a[home].Acquire(ctx, req)
	return err == nil && got.Status == storeapi.StatusAcquired, failedIf(home, err)
}

// copyTag is the beginning of the owner of a copy.
const copyTag = "copy"

// copyOwner returns the owner of the copy of an attempt's record. The store gives a copy another
// fence, so the holder of the original recognises it by this owner. A copy of a copy has the same
// owner.
func copyOwner(o storeapi.Owner, fence storeapi.Fence) (c storeapi.Owner) {
	if string(o[:len(copyTag)]) == copyTag {
		return o
	}
	sum := sha256.Sum256(binary.BigEndian.AppendUint64(o[:], uint64(fence)))
	copy(c[copy(c[:], copyTag):], sum[:])
	return c
}

// alike reports whether two homes have the record of one attempt, or one of them has a copy of it.
func alike(a, b *storeapi.Record) bool {
	switch {
	case a.State == 0 || b.State == 0:
		return false
	case a.Owner == b.Owner:
		return true
	}
	return b.Owner == copyOwner(a.Owner, a.Fence) || a.Owner == copyOwner(b.Owner, b.Fence)
}
