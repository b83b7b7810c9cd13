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

// RedriverOptions say which dead letters a [Redriver] redrives. A nil *RedriverOptions and zero
// fields mean the defaults: messages that used up their tries, one minute after that, and at most
// three times.
type RedriverOptions struct {
	// Why lists the reasons of the dead letters that are redriven; default only [DeadTries].
	// [DeadInDoubt] is refused: an operator must decide about it.
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
	// By is the name of who redrives, which is stored in the records; default "redriver".
	By string
	// Around, if set, is called for each message that is redriven, for example to write it to a
	// log. It calls redrive at most once, and returns its error. If it does not call redrive, it
	// returns an error, and the message stays a dead letter.
	Around func(ctx context.Context, m *DeadLetter, redrive func() error) error
	// Logger gets what an operator should know; default slog.Default().
	Logger *slog.Logger
}

// withDefaults fills in defaults and returns an error for invalid values.
func (o *RedriverOptions) withDefaults() (RedriverOptions, error) {
	var own RedriverOptions
	if o != nil {
		own = *o
	}
	if own.Why == nil {
		own.Why = []string{DeadTries}
	}
	if slices.Contains(own.Why, DeadInDoubt) {
		return own, fmt.Errorf("mqidem: messages with the reason %q may have taken effect, so that no rule redrives them; leave the reason out, and let an operator find out the outcome of each", DeadInDoubt)
	}
	if own.After == 0 {
		own.After = time.Minute
	}
	if own.MaxRedrives == 0 {
		own.MaxRedrives = 3
	}
	if own.Limit == 0 {
		own.Limit = 100
	}
	if own.By == "" {
		own.By = "redriver"
	}
	if own.MaxRedrives < 0 || own.Limit < 0 {
		return own, fmt.Errorf("mqidem: MaxRedrives is %d and Limit %d; use 1 or more, or leave them zero", own.MaxRedrives, own.Limit)
	}
	if own.Logger == nil {
		own.Logger = slog.Default()
	}
	return own, nil
}

// matches reports whether a message is to be redriven.
func (o *RedriverOptions) matches(why *Reason, now time.Time) bool {
	return slices.Contains(o.Why, why.Why) && (o.Consumer == "" || o.Consumer == why.Consumer) &&
		why.Redrives < o.MaxRedrives && now.Sub(why.At) >= o.After
}

// Redriver redrives dead letters as its options say, so that messages that failed for a while are
// done in the end. Run one at a time on a dead-letter queue.
type Redriver struct {
	engine      *retrysafe.Engine
	deadLetters DeadLetters
	o           RedriverOptions
}

// NewRedriver returns a redriver. e is as in [Redrive].
func NewRedriver(e *retrysafe.Engine, p DeadLetters, options *RedriverOptions) (*Redriver, error) {
	o, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Redriver{engine: e, deadLetters: p, o: o}, nil
}

// Redriven is the result of one run.
type Redriven struct {
	// Seen counts all dead letters, Sent those that were redriven, and Gone those that were removed
	// because a copy of them was done or redriven in the same run. Kept counts those that need an
	// operator: in doubt, unreadable, cut, or redriven as often as MaxRedrives allows.
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
		if !r.o.matches(&m.Reason, time.Now()) || did.Sent >= r.o.Limit {
			if m.Reason.Redrives >= r.o.MaxRedrives || !slices.Contains(r.o.Why, m.Reason.Why) {
				did.Kept++
			}
			return Keep, nil
		}
		switch err := r.redrive(ctx, m); {
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

// redrive redrives a message that the rule selects.
func (r *Redriver) redrive(ctx context.Context, m *DeadLetter) error {
	do := func() error { return Redrive(ctx, r.engine, r.deadLetters, m, &RedriveOptions{By: r.o.By}) }
	if r.o.Around == nil {
		return do()
	}
	return r.o.Around(ctx, m, do)
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
			r.o.Logger.Warn("mqidem: some dead letters could not be redriven", slog.Any("error", err))
		}
		if did.Sent+did.Gone > 0 {
			r.o.Logger.Info("mqidem: dead letters were redriven", slog.Int("sent", did.Sent), slog.Int("gone", did.Gone), slog.Int("seen", did.Seen))
		}
		if backoff.Pause(ctx, every) != nil {
			return nil //nolint:nilerr // as above
		}
	}
}
