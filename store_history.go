package retrysafe

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe/internal/claim"
	"github.com/retrysafe/retrysafe/internal/storecall"
	"github.com/retrysafe/retrysafe/internal/storemark"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// StoreHistory is what the marks in a store tell; see [Engine.MarkStore].
type StoreHistory struct {
	// Marks is how many marks the namespace has had. It becomes smaller only if the store went
	// back.
	Marks uint64
	// Last is when the newest mark was made, by the store's clock.
	Last time.Time
	// LostFrom and LostUntil are set if the store went back: what it has recorded between these
	// two times may be gone.
	LostFrom, LostUntil time.Time
}

// MarkStore looks whether the store went back to an older state, for example because a backup was
// restored, and leaves a mark in it: a record of the namespace with the marks of the last minutes,
// which never expires. Call it every few seconds while the program runs, and before the first
// call. It costs one call of the store, and two if other programs mark it too.
//
// The error is [ErrStoreWentBack] if the store has no longer the mark that this engine saw last, or
// if another process has found that. It stays until an operator accepts it
// (retrysafe restore accept). Until then do not begin new work: a retry of a request whose record
// is gone would run again. What the store still has can be answered. Calls that do not find out
// return [ErrUnavailable].
//
// An engine remembers its marks only while its program runs. If all programs were stopped while the
// store went back, none of them notices; but StoreHistory.Marks is smaller then, which a monitoring
// system sees that has recorded it.
func (e *Engine) MarkStore(ctx context.Context) (StoreHistory, error) {
	h, err := e.c.marks.next(ctx, e.c)
	s := StoreHistory{Marks: h.Count, Last: h.Last().Time(), LostFrom: h.BackTo.Time(), LostUntil: h.Lost.Time()}
	switch {
	case err != nil:
		return s, &Error{Op: opMark, Err: err, RetryAfter: time.Second}
	case h.Lost != 0:
		err = fmt.Errorf("%w: what was recorded from %s to %s may be gone", ErrStoreWentBack, s.LostFrom.UTC().Format(time.RFC3339), s.LostUntil.UTC().Format(time.RFC3339))
		return s, &Error{Op: opMark, Err: err}
	}
	return s, nil
}

// opMark is the step that failed, for errors.
const opMark = "mark the store"

// storeMarks remembers what an engine has seen of the history of its store.
type storeMarks struct {
	mu   sync.Mutex // one look at a time
	rec  Record     // the record of the last look; its State is zero if there was none
	seen storemark.History
}

// next writes the next mark and returns the history of the store.
func (m *storeMarks) next(ctx context.Context, c *core) (storemark.History, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var unreadable error // a further try reads the same
	err := c.store.CallUntilAnswered(ctx, func(limit time.Duration) error {
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		err := m.write(ctx, c)
		if errors.Is(err, storemark.ErrRecord) {
			unreadable, err = err, nil
		}
		return err
	})
	if err != nil {
		return m.seen, storecall.Unavailable(err)
	}
	return m.seen, unreadable
}

// write writes the history of the store with what this engine has noticed, in place of the record
// of the last look. It writes in each look, also if another process has just left a mark: a mark
// that is only read may be one that the store has not confirmed, for example since a replica has
// not answered, and a failover that drops it is no loss. A confirmed write confirms all before it.
// After a lost reply the next call finds what this one has written.
func (m *storeMarks) write(ctx context.Context, c *core) error {
	found := m.rec
	if found.State == 0 {
		var err error
		if found, err = c.store.Lookup(ctx, storemark.Key(c.namespace)); err != nil {
			return err
		}
	}
	for {
		h, err := storemark.Read(&found)
		if err != nil {
			return err
		}
		if !m.rec.Expires.IsZero() && found.State == 0 && !found.Now.Before(m.rec.Expires) {
			// it expired, as it does in a demonstration
			m.rec, m.seen = Record{}, storemark.History{}
		}
		next := h.Next(&m.seen, c.store.TimeAt(time.Now()))
		req := next.Write(&found, c.namespace, claim.NewOwner())
		var rec Record
		status, err := c.store.Acquire(ctx, &req, time.Now(), &rec)
		switch {
		case err != nil:
			return err
		case status == storeapi.StatusAcquired:
			m.rec, m.seen = rec, next
			return nil
		}
		found = rec
	}
}
