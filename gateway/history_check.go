package gateway

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/retrysafe/retrysafe"
)

// markEvery is the time between two marks of a process in the store, and so the longest for which
// it does not notice that the store went back. A request that begins after more than twice that
// without an answer of the store waits for a look.
const (
	markEvery = 5 * time.Second
	markTime  = 5 * time.Second
)

// historyCheck refuses new keys while the store is in an older state than was seen before, as after
// a backup was restored: what is gone may have run. It costs a request nothing.
type historyCheck struct {
	engine  *retrysafe.Engine
	logger  *slog.Logger
	monitor *Monitor
	serve   bool // new keys run all the same
	begun   time.Time

	// lookedAt is the time from begun to the last look that had an answer; zero: there was none.
	lookedAt atomic.Int64
	wentBack atomic.Pointer[error] // nil: it did not

	lock    chan struct{} // guards the rest: one look at a time
	endedAt time.Time     // of the last look
	err     error         // of the last look: it had no answer
	strange bool          // the record cannot be read, which was logged
}

func newHistoryCheck(e *retrysafe.Engine, o *Options, logger *slog.Logger) *historyCheck {
	return &historyCheck{engine: e, logger: logger, monitor: o.Monitor, serve: o.ServeRestored, begun: time.Now(), lock: make(chan struct{}, 1)}
}

// keepLooking looks every few seconds until ctx ends.
func (h *historyCheck) keepLooking(ctx context.Context) {
	tick := time.NewTicker(markEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			_ = h.markStore(ctx) // a store that does not answer is asked again
		}
	}
}

// requireHistory returns an error if new keys may not run: the store went back, or it cannot be
// asked whether it did.
func (h *historyCheck) requireHistory(ctx context.Context) error {
	if h.serve {
		return nil
	}
	if !h.isFresh() {
		if err := h.markStore(ctx); err != nil {
			return err
		}
	}
	return h.state()
}

func (h *historyCheck) isFresh() bool {
	at := h.lookedAt.Load()
	return at != 0 && time.Since(h.begun)-time.Duration(at) < 2*markEvery
}

// state returns an error that wraps [retrysafe.ErrStoreWentBack] if the store went back, as far as
// the last look tells.
func (h *historyCheck) state() error {
	if err := h.wentBack.Load(); err != nil {
		return *err
	}
	return nil
}

// markStore leaves a mark in the store, or returns what a look for another request found that ended
// meanwhile: one after the other would take too long. The error is that of a store without an
// answer.
func (h *historyCheck) markStore(ctx context.Context) error {
	came := time.Now()
	select {
	case h.lock <- struct{}{}:
		defer func() { <-h.lock }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if h.endedAt.After(came) {
		return h.err
	}
	// It is for all requests, so it does not end with this one.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), markTime)
	defer cancel()
	h.err = h.readHistory(ctx)
	h.endedAt = time.Now()
	return h.err
}

// readHistory leaves a mark and keeps what the store says. The caller holds the lock.
func (h *historyCheck) readHistory(ctx context.Context) error {
	found, err := h.engine.MarkStore(ctx)
	if errors.Is(err, retrysafe.ErrUnavailable) {
		return err
	}
	before := h.state()
	switch {
	case errors.Is(err, retrysafe.ErrStoreWentBack):
		h.wentBack.Store(&err)
		if before == nil {
			h.logger.Error("the store went back to an older state; requests whose records are gone may have run", "new_keys_refused", !h.serve,
				"lost_from", found.LostFrom.UTC(), "lost_until", found.LostUntil.UTC(), "error", err.Error())
		}
	case err != nil:
		if !h.strange {
			h.strange = true
			h.logger.Warn("a store that goes back to an older state is not noticed", "error", err.Error())
		}
	default:
		h.wentBack.Store(nil)
		if before != nil {
			h.logger.Info("an operator has accepted that the store went back; new keys are served again")
		}
	}
	h.lookedAt.Store(max(1, int64(time.Since(h.begun))))
	h.monitor.setStoreHistory(found, h.wentBack.Load() != nil)
	return nil
}
