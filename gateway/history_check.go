package gateway

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/retrysafe/retrysafe"
)

const (
	// markEvery is the time between two looks of a process, and so the longest for which it does
	// not notice that the store went back.
	markEvery = 5 * time.Second
	// markAgain is the pause after a look without an answer: when a store is there again, it may
	// have been restored.
	markAgain = 100 * time.Millisecond
	// markTime is the most time of a look.
	markTime = 5 * time.Second
	// stoodStill is how long after the begin of the last look the process, or its machine, must
	// have stood still. While the store hangs, the begins of two looks are markTime and a pause
	// apart, and that of the first counts until the second has ended.
	stoodStill = 2*markEvery + markTime
)

// historyCheck refuses new keys while the store is in an older state than was seen before, as after
// a backup was restored: what is gone may have run. It costs a request nothing. While the store
// does not answer a look, what it answered before holds: the record with the marks is on one server
// of a cluster, or on one shard, and the keys of the others run meanwhile.
type historyCheck struct {
	engine  *retrysafe.Engine
	logger  *slog.Logger
	monitor *Monitor
	serve   bool // new keys run all the same

	// The check of the configuration after this one: it looks, and answers for the requests that
	// are still in flight here.
	next     atomic.Pointer[historyCheck]
	lookedAt atomic.Pointer[time.Time] // when the last look began
	// a look had an answer, and the process has not stood still since
	answered atomic.Bool
	wentBack atomic.Pointer[error] // nil: it did not

	lock    chan struct{} // guards the rest: one look at a time
	err     error         // of the last look: it had no answer
	strange bool          // the record cannot be read, which was logged
}

func newHistoryCheck(e *retrysafe.Engine, o *Options, logger *slog.Logger) *historyCheck {
	return &historyCheck{engine: e, logger: logger, monitor: o.Monitor, serve: o.ServeRestored, lock: make(chan struct{}, 1)}
}

// keepLooking looks every few seconds until ctx ends.
func (h *historyCheck) keepLooking(ctx context.Context) {
	next := time.NewTimer(markEvery)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-next.C:
		}
		if h.markStore(ctx) == nil {
			next.Reset(markEvery)
		} else {
			next.Reset(markAgain)
		}
	}
}

// requireHistory returns an error if new keys may not run: the store went back, or it has not
// answered since this process began or stood still.
func (h *historyCheck) requireHistory(ctx context.Context) error {
	if next := h.next.Load(); next != nil {
		return next.requireHistory(ctx)
	}
	if h.serve {
		return nil
	}
	// In this order: a failed look writes answered first.
	if h.hasStoodStill() || !h.answered.Load() {
		if err := h.markStore(ctx); err != nil {
			return err
		}
	}
	return h.state()
}

// hasStoodStill reports whether it is too long ago that the store was looked at. The monotonic
// clock does not count while the machine is suspended, and the other one can be set.
func (h *historyCheck) hasStoodStill() bool {
	at := h.lookedAt.Load()
	return at == nil || max(time.Since(*at), time.Now().Round(0).Sub(at.Round(0))) > stoodStill
}

// inherit takes over from the check of the configuration before: what it has found, unless this one
// has looked itself, and its requests. Both have one engine. It waits for a look that is under way.
func (h *historyCheck) inherit(before *historyCheck) {
	defer before.next.Store(h)
	h.lock <- struct{}{}
	defer func() { <-h.lock }()
	if h.answered.Load() {
		return
	}
	// The other one may look meanwhile. It writes these in the other order, so what is read here is
	// not older than the look.
	lookedAt := before.lookedAt.Load()
	answered := before.answered.Load()
	h.wentBack.Store(before.wentBack.Load())
	h.lookedAt.Store(lookedAt)
	h.answered.Store(answered)
}

// state returns an error that wraps [retrysafe.ErrStoreWentBack] if the store went back, as far as
// the last look tells.
func (h *historyCheck) state() error {
	if err := h.wentBack.Load(); err != nil {
		return *err
	}
	return nil
}

// markStore leaves a mark in the store, or returns what a look for another request found that began
// and ended meanwhile: one after the other would take too long. The error is that of a store
// without an answer.
func (h *historyCheck) markStore(ctx context.Context) error {
	came := time.Now()
	select {
	case h.lock <- struct{}{}:
		defer func() { <-h.lock }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if at := h.lookedAt.Load(); at != nil && !at.Before(came) {
		return h.err
	}
	// It is for all requests, so it does not end with this one.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), markTime)
	defer cancel()
	begun := time.Now()
	if h.hasStoodStill() {
		h.answered.Store(false) // the store may have gone back meanwhile
	}
	h.err = h.readHistory(ctx)
	h.lookedAt.Store(&begun)
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
		h.answered.Store(true)
		return nil // what is not read is not counted
	default:
		h.wentBack.Store(nil)
		if before != nil {
			h.logger.Info("an operator has accepted that the store went back; new keys are served again")
		}
	}
	h.answered.Store(true)
	h.monitor.setStoreHistory(h.engine.Namespace(), found, h.wentBack.Load() != nil)
	return nil
}
