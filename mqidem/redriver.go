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

// Rule says which parked messages a [Redriver] puts back; the zero Rule is those that used up their
// tries, a minute after that, three times at most.
type Rule struct {
	// Why are the reasons that it is for; default [DeadTries] alone. [DeadInDoubt] is never
	// redriven by rule: that is for people.
	Why []string
	// Consumer is whose messages; empty: any.
	Consumer string
	// After is how long a message has been parked at least; default 1 min, negative: at once.
	After time.Duration
	// MaxRedrives is how often a message is put back at most, by whomever; default 3. One that is
	// parked more often stays for people.
	MaxRedrives int
	// Limit is how many are put back in one run; default 100. What comes back all at once would hit
	// the same trouble at once.
	Limit int
}

// checked fills in what is zero.
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

// matches tells whether the rule is for a message.
func (r *Rule) matches(why *Reason, now time.Time) bool {
	return slices.Contains(r.Why, why.Why) && (r.Consumer == "" || r.Consumer == why.Consumer) &&
		why.Redrives < r.MaxRedrives && now.Sub(why.At) >= r.After
}

// Redriver puts parked messages back by a rule, so that what failed for a while is done in the end.
// One at a time should run on a parking queue.
type Redriver struct {
	engine  *retrysafe.Engine
	parking Parking
	rule    Rule
	logger  *slog.Logger
}

// NewRedriver returns a redriver; e is as in [Redrive]. logger may be nil: slog.Default().
func NewRedriver(e *retrysafe.Engine, p Parking, rule Rule, logger *slog.Logger) (*Redriver, error) {
	rule, err := rule.checked()
	if err != nil {
		return nil, err
	}
	if logger == nil {
		logger = slog.Default()
	}
	return &Redriver{engine: e, parking: p, rule: rule, logger: logger}, nil
}

// Redriven is what one run has done.
type Redriven struct {
	// Seen are all that were parked, Sent those that were put back, Gone those that were taken away
	// since a copy of them was done, or put back in the same run. Kept are for people: in doubt,
	// unreadable, cut, or put back as often as the rule allows.
	Seen, Sent, Gone, Kept int
}

// Once goes through the parking queue once. What cannot be put back at present stays, and is part
// of the error; the others are put back all the same.
func (r *Redriver) Once(ctx context.Context) (Redriven, error) {
	var did Redriven
	var failed []error
	sent := map[string]string{} // body by key
	err := r.parking.Walk(ctx, func(ctx context.Context, m *Parked) (Verdict, error) {
		did.Seen++
		same := m.Reason.Key
		if body, ok := sent[same]; ok && same != "" && body == string(m.Message.Body) {
			// parked twice, by a consumer that died behind the first
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
		switch err := Redrive(ctx, r.engine, r.parking, m, false, "redriver"); {
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

// Run goes through the parking queue at once and then every so often, until ctx ends. What fails is
// logged, and tried again.
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
			r.logger.Warn("mqidem: some parked messages could not be put back", slog.Any("error", err))
		}
		if did.Sent+did.Gone > 0 {
			r.logger.Info("mqidem: parked messages were put back", slog.Int("sent", did.Sent), slog.Int("gone", did.Gone), slog.Int("seen", did.Seen))
		}
		if backoff.Pause(ctx, every) != nil {
			return nil //nolint:nilerr // as above
		}
	}
}
