package admin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/storecall"
	"github.com/retrysafe/retrysafe/internal/storemark"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// StoreHistory returns what the marks of a namespace tell, and writes nothing. LostUntil is zero
// unless the store went back to an older state, and no operator has accepted that. Without any mark
// it is the zero value: no process of the namespace has called [retrysafe.Engine.MarkStore].
func (d *Records) StoreHistory(ctx context.Context, namespace string) (retrysafe.StoreHistory, error) {
	_, h, err := d.readMarks(ctx, namespace)
	return retrysafe.StoreHistory{Marks: h.Count, Last: h.Last().Time(), LostFrom: h.BackTo.Time(), LostUntil: h.Lost.Time()}, err
}

func (d *Records) readMarks(ctx context.Context, namespace string) (storeapi.Record, storemark.History, error) {
	rec, err := d.store.Lookup(ctx, storemark.Key(namespace))
	if err != nil {
		return rec, storemark.History{}, err
	}
	h, err := storemark.Read(&rec)
	return rec, h, err
}

// acceptTries is how often AcceptRestore begins again after a lost reply or a mark of a process.
const acceptTries = 20

// AcceptRestore accepts that the store of a namespace went back to an older state and has lost what
// seen says, a result of [Records.StoreHistory]. The processes of the namespace run new keys again
// within seconds; a retry of a request whose record is gone runs again. If another time is lost by
// now, as after a second restore, the error is [retrysafe.ErrStoreWentBack] with that time. Then,
// and if the store did not go back, nothing is changed.
func (d *Records) AcceptRestore(ctx context.Context, namespace string, seen retrysafe.StoreHistory) error {
	var failed error
	for try := range acceptTries {
		rec, h, err := d.readMarks(ctx, namespace)
		if err != nil || h.Lost == 0 {
			return err
		}
		if from, until := h.BackTo.Time(), h.Lost.Time(); !from.Equal(seen.LostFrom) || !until.Equal(seen.LostUntil) {
			return fmt.Errorf("%w: what was recorded from %s to %s may be gone; nothing was changed, since another time was named", retrysafe.ErrStoreWentBack,
				from.UTC().Format(time.RFC3339Nano), until.UTC().Format(time.RFC3339Nano))
		}
		next := h.Accept(rec.Now)
		got, err := d.store.Acquire(ctx, next.Write(&rec, namespace, newOwner()))
		switch {
		case err == nil && got.Status == storeapi.StatusAcquired:
			return nil
		case err == nil:
			failed = errors.New("others change its marks")
		default:
			failed = err // the next round finds out whether it was written
		}
		if !storecall.Pause(ctx, time.Duration(try)*10*time.Millisecond) {
			return context.Cause(ctx)
		}
	}
	return fmt.Errorf("it was not accepted that the store went back; run the command again: %w", failed)
}
