package gateway

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/retrysafe/retrysafe"
)

// secretEvery is the shortest time between two looks at the check value of a secret that has
// changed.
const secretEvery = time.Second

// secretTime is how long a look may take.
const secretTime = 5 * time.Second

// secretCheck keeps guarded requests out until the secret of the engine is known to be the one that
// the store was used with: with another one a duplicate would run again. After that it costs
// nothing.
type secretCheck struct {
	engine *retrysafe.Engine
	logger *slog.Logger
	passed atomic.Bool

	lock      chan struct{} // guards the rest; a request that waits for it may go away
	checkedAt time.Time     // of the last look; zero: there was none
	err       error         // of the last look
	warnedAt  time.Time     // of the last warning
}

func newSecretCheck(e *retrysafe.Engine, log *slog.Logger) *secretCheck {
	return &secretCheck{engine: e, logger: log, lock: make(chan struct{}, 1)}
}

// ensurePassed returns nil if guarded requests may be served.
func (s *secretCheck) ensurePassed(ctx context.Context) error {
	if s.passed.Load() {
		return nil
	}
	came := time.Now()
	select {
	case s.lock <- struct{}{}:
		defer func() { <-s.lock }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	switch {
	case s.passed.Load(),
		// a look for another request; one after the other would take too long
		s.checkedAt.After(came),
		errors.Is(s.err, retrysafe.ErrSecretChanged) && time.Since(s.checkedAt) < secretEvery:
		return s.err
	}
	// It is for all requests, so it does not end with this one.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), secretTime)
	defer cancel()
	s.err = s.engine.CheckSecret(ctx)
	s.checkedAt = time.Now()
	s.passed.Store(s.err == nil)
	s.logChanged()
	return s.err
}

// logChanged logs that the secret has changed, at most once in a minute. It does not say that
// requests are refused: after a reload that failed, the gateway before it still serves. The monitor
// logs failures of the store.
func (s *secretCheck) logChanged() {
	if errors.Is(s.err, retrysafe.ErrUnavailable) || s.err == nil || !s.warnedAt.IsZero() && time.Since(s.warnedAt) < time.Minute {
		return
	}
	s.warnedAt = time.Now()
	s.logger.Error("guarded requests cannot be served with this secret", "error", s.err.Error())
}
