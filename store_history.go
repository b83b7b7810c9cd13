package retrysafe

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
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
// call. It costs one call of the store, seldom more.
//
// The error is [ErrStoreWentBack] if the store has no longer the last mark that it has confirmed to
// this engine, or if another process has found that. It stays until an operator accepts it
// (retrysafe restore accept). Until then do not begin new work: a retry of a request whose record
// is gone would run again. What the store still has can be answered. Calls that do not find out
// return [ErrUnavailable].
//
// An engine remembers its marks only while its program runs. If all programs were stopped while the
// store went back, none of them notices; but StoreHistory.Marks is smaller then, which a monitoring
// system sees that has recorded it.
func (e *Engine) MarkStore(ctx context.Context) (StoreHistory, error) {
	h, err := e.c.marks.markStore(ctx, e.c)
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

// While others write marks, an engine lets the store confirm their newest one to it every
// confirmEvery. So if the machine that wrote them is lost together with the primary, another engine
// knows what a late replica has not. Where many engines write, one that has lost two races tries
// again with its next look, unless it has had nothing confirmed for confirmAtLast.
const (
	confirmEvery  = 10 * time.Second
	confirmAtLast = 30 * time.Second
)

// storeMarks remembers what an engine has seen of the history of its store.
type storeMarks struct {
	mu  sync.Mutex // one look at a time
	rec Record     // the record of the last look; its State is zero if there was none
	// seen is the last history that the store has confirmed to this engine, and confirmedAt when.
	// What is only read may be what the store has not confirmed, for example since a replica has
	// not answered, and a failover that drops it is no loss. A confirmed write confirms all before
	// it.
	seen        storemark.History
	confirmedAt time.Time
}

// markStore writes the next mark and returns the history of the store.
func (m *storeMarks) markStore(ctx context.Context, c *core) (h storemark.History, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known, _ := storemark.Read(&m.rec) // what cannot be read is not known
	var unreadable error               // a further try reads the same
	err = c.store.CallUntilAnswered(ctx, func(limit time.Duration) error {
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		found, err := m.write(ctx, c)
		if err == nil || found.Lost != 0 { // a further try may not read that once more
			h = found
		}
		if errors.Is(err, storemark.ErrRecord) {
			unreadable, err = err, nil
		}
		return err
	})
	switch {
	case unreadable != nil:
		return m.seen, unreadable
	case err != nil && (h.Lost == 0 || h.Lost == known.Lost):
		return m.seen, storecall.Unavailable(err)
	}
	// What was read shows that the store went back, also if that could not be written.
	return h, nil
}

// write writes the history of the store with what this engine has noticed, in place of the record
// of the last look, and returns it, also with an error. It leaves a mark of another process as it
// is unless this engine has none that is confirmed lately. After a lost reply the next call finds
// what this one has written.
func (m *storeMarks) write(ctx context.Context, c *core) (next storemark.History, err error) {
	found := m.rec
	if found.State == 0 {
		if found, err = c.store.Lookup(ctx, storemark.Key(c.namespace)); err != nil {
			return next, err
		}
	}
	for try := 0; ; try++ {
		h, err := storemark.Read(&found)
		if err != nil {
			return next, err
		}
		retention := m.forgetExpired(&found)
		next = h.Next(&m.seen, c.store.TimeAt(time.Now()))
		limit := confirmEvery
		if try > 1 {
			limit = confirmAtLast
		}
		if try > 0 && next.Lost == h.Lost && next.Last() == h.Last() && time.Since(m.confirmedAt) < limit {
			m.rec = found
			return next, nil
		}
		req := next.Write(&found, c.namespace, claim.NewOwner())
		if retention > 0 {
			req.Retention = retention
		}
		var rec Record
		status, err := c.store.Acquire(ctx, &req, time.Now(), &rec)
		switch {
		case err != nil:
			return next, err
		case status == storeapi.StatusAcquired:
			m.rec, m.seen, m.confirmedAt = rec, next, time.Now()
			return next, nil
		}
		found = rec
		// Others that lost the same race wait for other times.
		if !storecall.Pause(ctx, rand.N(time.Duration(1+min(try, 9))*5*time.Millisecond)) {
			return next, context.Cause(ctx)
		}
	}
}

// forgetExpired forgets what was seen if its record has expired, as that of a demonstration does
// while a laptop sleeps, and returns its retention. Otherwise it returns zero.
func (m *storeMarks) forgetExpired(found *Record) (retention time.Duration) {
	ended := m.rec.Expires
	switch {
	case ended.IsZero(), found.State == 0 && found.Now.Before(ended), found.State != 0 && found.Created.Before(ended):
		return 0
	case found.State == 0:
		retention = ended.Sub(m.rec.Updated)
	}
	m.seen = storemark.History{}
	return retention
}
