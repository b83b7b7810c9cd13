// Package claim acquires keys. It asks the store until it answers, and gives back in the background
// what a lost reply may have acquired.
package claim

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/retrysafe/retrysafe/internal/lifetime"
	"github.com/retrysafe/retrysafe/internal/quota"
	"github.com/retrysafe/retrysafe/internal/storecall"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// NewOwner returns the owner of one claim.
func NewOwner() (o storeapi.Owner) {
	_, _ = rand.Read(o[:]) // never returns an error: it would end the process
	return o
}

// Claimer acquires keys for one engine. It is safe for concurrent use.
type Claimer struct {
	store      *storecall.Store
	lostClaims lostClaims
}

// New returns a Claimer. lapse, which may be nil, is called for a claim that may have been applied
// and is not given back: its lease expires.
func New(store *storecall.Store, life *lifetime.Life, lapse func(context.Context, storeapi.StoreKey)) *Claimer {
	return &Claimer{store: store, lostClaims: lostClaims{store: store, life: life, lapse: lapse}}
}

// Acquire calls the store until it answers, at most a few times. All tries have the same owner, so
// a lost reply does no harm. An error means that the caller must not run the work. If a claim may
// have been made nevertheless, it is given back in the background. seen is the record that IfFence
// names, if it does. Without an error *found is set to the record of the answer. reserved is
// finished here, or when the claim has been given back; sent is when the answered request was sent.
//
// A store that fails slowly is asked only twice: the first try may have used a dead connection, and
// after the second the caller has waited long enough.
func (c *Claimer) Acquire(ctx context.Context, req *storeapi.AcquireRequest, seen, found *storeapi.Record, reserved *quota.Reservation) (status storeapi.Status, sent time.Time, err error) {
	var unanswered time.Time // the latest NotAfter of a try without an answer
	t, ctx := c.store.BeginTurn(ctx)
	defer func() { t.End(err) }()
	for try := range storecall.Tries {
		if try > 0 && (t.IsOver() || !storecall.Pause(ctx, time.Duration(try*try)*50*time.Millisecond)) {
			break
		}
		if err = ctx.Err(); err != nil {
			break
		}
		if !c.store.KnowsTime() || errors.Is(err, storeapi.ErrTooLate) {
			if err = c.store.ReadTime(ctx, req.Key); err != nil {
				continue
			}
		}
		sent = time.Now()
		req.NotAfter = c.store.NotAfter(ctx, sent)
		status, err = c.store.Acquire(ctx, req, sent, found)
		if err == nil {
			if reserved != nil {
				if fresh := madeNewKey(found, req.Owner); fresh || unanswered.IsZero() {
					reserved.Finish(fresh)
				}
			}
			if !unanswered.IsZero() {
				// An earlier try may still be in flight, and may acquire the key when it is free
				// again.
				var ours storeapi.Fence
				if status == storeapi.StatusAcquired {
					ours = found.Fence
				}
				c.lostClaims.giveBack(req, seen, unanswered, ours, reserved)
			}
			return status, sent, nil
		}
		if errors.Is(err, storeapi.ErrTooLate) {
			c.store.DoubtTime()
			continue
		}
		if !storecall.MayBeApplied(err) {
			break
		}
		if req.NotAfter.After(unanswered) {
			unanswered = req.NotAfter
		}
	}
	if unanswered.IsZero() {
		reserved.Finish(false)
	} else {
		c.lostClaims.giveBack(req, seen, unanswered, 0, reserved)
	}
	return 0, sent, storecall.Unavailable(err)
}

// GiveBack gives back, in the background, a claim of a batch that was not answered.
func (c *Claimer) GiveBack(req *storeapi.AcquireRequest) {
	c.lostClaims.giveBack(req, nil, req.NotAfter, 0, nil)
}

// madeNewKey reports whether owner has made a new key of rec, whatever happened to rec since then.
func madeNewKey(rec *storeapi.Record, owner storeapi.Owner) bool {
	return rec.Attempt == 1 && rec.Owner == owner
}

// MayFollowDoubt reports whether the record that was acquired may have been in doubt, or failed,
// before. It then goes back to being in doubt: that this attempt did nothing says nothing about the
// one before it.
func MayFollowDoubt(rec *storeapi.Record, ifFence storeapi.Fence) bool {
	return ifFence != 0 || rec.OnDoubt == storeapi.Reexecute && rec.Attempt > 1
}

// RestoringRelease returns the release that makes the record that req takes over by its fence what
// it was, or nil if seen does not say. A doubt keeps the cause and the error of the incident.
func RestoringRelease(req *storeapi.AcquireRequest, seen *storeapi.Record) *storeapi.ReleaseRequest {
	if seen != nil && seen.InDoubt() && seen.Fence == req.IfFence {
		return &storeapi.ReleaseRequest{InDoubt: true, Cause: cmp.Or(seen.Cause, storeapi.CauseCrash), LastError: seen.LastError}
	}
	return PriorRelease(req, seen)
}

// PriorRelease returns how the record that req takes over by its fence was released, or nil if it
// was not. A claim that did nothing leaves such a record as it was: a released record changes only
// with its fence, so seen is what the claim found.
func PriorRelease(req *storeapi.AcquireRequest, seen *storeapi.Record) *storeapi.ReleaseRequest {
	if seen == nil || seen.State != storeapi.StateReleased || seen.Fence != req.IfFence {
		return nil
	}
	return &storeapi.ReleaseRequest{Cause: seen.Cause, LastError: seen.LastError}
}
