package mqidem

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/backoff"
)

// Rule says which dead letters a [Redriver] redrives. The zero Rule is for messages that used up
// their tries: one minute after that, and at most three times.
type Rule struct {
	// Why lists the reasons that the rule is for; default only [DeadTries]. [DeadInDoubt] is
	// refused: an operator must decide about it.
	Why []string
	// Consumer is the consumer whose messages are redriven; empty means any.
	Consumer string
	// After is how long a message must have been dead; default 1 min, negative means at once.
	After time.Duration
	// MaxRedrives is how often a message is redriven at most, by any redriver or operator; default
	// 3. After that it stays for an operator.
	MaxRedrives int
	// Limit is how many messages are redriven in one run; default 100. Too many at once would meet
	// the same trouble again at once.
	Limit int
}

// checked fills in defaults and returns an error for invalid values.
func (r Rule) checked() (Rule, error) {
	if r.Why == nil {
		r.Why = []string{DeadTries}
	}
	if slices.Contains(r.Why, DeadInDoubt) {
		return r, errors.New("mqidem: a rule cannot redrive what is in doubt: somebody has to find out whether it was done")
	}
	if r.After == 0 {
		r.After = time.Minute
	}
	if r.MaxRedrives == 0 {
		r.MaxRedrives = 3
	}
	if r.Limit == 0 {
		r.Limit = 100
	}
	if r.MaxRedrives < 0 || r.Limit < 0 {
		return r, fmt.Errorf("mqidem: MaxRedrives is %d and Limit %d; use 1 or more, or leave them zero", r.MaxRedrives, r.Limit)
	}
	return r, nil
}

// matches reports whether the rule is for a message.
func (r *Rule) matches(why *Reason, now time.Time) bool {
	return slices.Contains(r.Why, why.Why) && (r.Consumer == "" || r.Consumer == why.Consumer) &&
		why.Redrives < r.MaxRedrives && now.Sub(why.At) >= r.After
}

// Redriver redrives dead letters by a rule, so that messages that failed for a while are done in
// the end. Run one at a time on a dead-letter queue.
type Redriver struct {
	engine      *retrysafe.Engine
	deadLetters DeadLetters
	rule        Rule
	logger      *slog.Logger
}

// NewRedriver returns a redriver. e is as in [Redrive]. A nil logger means slog.Default().
func NewRedriver(e *retrysafe.Engine, p DeadLetters, rule Rule, logger *slog.Logger) (*Redriver, error) {
	rule, err := rule.checked()
	if err != nil {
		return nil, err
	}
	if logger == nil {
		logger = slog.Default()
	}
	return &Redriver{engine: e, deadLetters: p, rule: rule, logger: logger}, nil
}

// Redriven is the result of one run.
type Redriven struct {
	// Seen counts all dead letters, Sent those that were redriven, and Gone those that were removed
	// because a copy of them was done or redriven in the same run. Kept counts those that need an
	// operator: in doubt, unreadable, cut, or redriven as often as the rule allows.
	Seen, Sent, Gone, Kept int
}

// Once goes through the dead-letter queue once. A message that cannot be redriven at present stays
// and is part of the error. It does not stop the others.
func (r *Redriver) Once(ctx context.Context) (Redriven, error) {
	var did Redriven
	var failed []error
	sent := map[string]string{} // body by key
	err := r.deadLetters.Walk(ctx, func(ctx context.Context, m *DeadLetter) (Verdict, error) {
		did.Seen++
		same := m.Reason.Key
		if body, ok := sent[same]; ok && same != "" && body == string(m.Message.Body) {
			// twice in the queue: a consumer died after it wrote the first entry
			did.Gone++
			return Remove, nil
		}
		if m.Reason.Cut != "" {
			did.Kept++
			return Keep, nil
		}
		if !r.rule.matches(&m.Reason, time.Now()) || did.Sent >= r.rule.Limit {
			if m.Reason.Redrives >= r.rule.MaxRedrives || !slices.Contains(r.rule.Why, m.Reason.Why) {
				did.Kept++
			}
			return Keep, nil
		}
		switch err := Redrive(ctx, r.engine, r.deadLetters, m, false, "redriver"); {
		case err == nil:
			did.Sent++
			sent[same] = string(m.Message.Body)
		case errors.Is(err, ErrDoneElsewhere):
			did.Gone++
		default:
			if !errors.Is(err, retrysafe.ErrInProgress) && len(failed) < 3 {
				failed = append(failed, err)
			}
			return Keep, nil
		}
		return Remove, nil
	})
	return did, errors.Join(append(failed, err)...)
}

// Run calls Once at once and then every so often, until ctx ends. It logs errors and continues.
func (r *Redriver) Run(ctx context.Context, every time.Duration) error {
	if every <= 0 {
		return fmt.Errorf("mqidem: a redriver cannot run every %v; use a positive time", every)
	}
	for {
		did, err := r.Once(ctx)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the end of ctx is no failure
		}
		if err != nil {
			r.logger.Warn("mqidem: some dead letters could not be redriven", slog.Any("error", err))
		}
		if did.Sent+did.Gone > 0 {
			r.logger.Info("mqidem: dead letters were redriven", slog.Int("sent", did.Sent), slog.Int("gone", did.Gone), slog.Int("seen", did.Seen))
		}
		if backoff.Pause(ctx, every) != nil {
			return nil //nolint:nilerr // as above
		}
	}
}
