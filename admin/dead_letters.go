package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/mqidem"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// DeadLetters are the dead letters of a consumer, with its records. Walks of one queue must not
// overlap if its broker shows a message only by delivering it, so each method holds a lock.
type DeadLetters struct {
	letters    mqidem.DeadLetters
	records    *Records // nil if the handlers keep none
	hashEngine *retrysafe.Engine
	walking    chan struct{}
}

// NewDeadLetters returns the dead letters of a queue. records has the records of its consumer; nil
// if its handlers keep none, and then secret makes the hashes.
func NewDeadLetters(letters mqidem.DeadLetters, records *Records, secret []byte) *DeadLetters {
	return &DeadLetters{
		letters: letters, records: records, walking: make(chan struct{}, 1),
		hashEngine: retrysafe.New(memstore.New(nil), &retrysafe.Options{Secret: secret, Sweep: -1}),
	}
}

// Engine returns an engine on the layer of a dead letter's record, or nil if there is no record.
func (d *DeadLetters) Engine(why *mqidem.Reason) *retrysafe.Engine {
	var key storeapi.StoreKey
	if d.records == nil || key.UnmarshalText([]byte(why.Key)) != nil {
		return nil
	}
	return d.records.Engine(key)
}

// Hash returns the name of a dead letter. If it has a record, that is the record's.
func (d *DeadLetters) Hash(m *mqidem.DeadLetter) string {
	var key storeapi.StoreKey
	if key.UnmarshalText([]byte(m.Reason.Key)) != nil {
		key.Key = retrysafe.Key{Operation: "dlq", ID: retrysafe.KeyPart(m.Message.ID + "\n" + string(m.Message.Body))}
		return d.hashEngine.KeyHash(key.Key)
	}
	if e := d.Engine(&m.Reason); e != nil {
		return e.KeyHash(key.Key)
	}
	return d.hashEngine.KeyHash(key.Key)
}

// State returns the state of the record of a dead letter: one of StateOf, or none, gone, unknown,
// or open if it was opened for a redrive that has not been sent.
func (d *DeadLetters) State(ctx context.Context, why *mqidem.Reason) string {
	if why.Key == "" {
		return "none"
	}
	e := d.Engine(why)
	if e == nil {
		return "unknown"
	}
	rec, found, err := mqidem.RecordOf(ctx, e, why)
	switch {
	case err != nil:
		return "unknown"
	case !found:
		return "gone"
	case rec.State == retrysafe.StateReleased:
		return "open"
	}
	return StateOf(&rec)
}

// errEnough ends a walk.
var errEnough = errors.New("enough")

// Walk calls see for each dead letter, until see returns false.
func (d *DeadLetters) Walk(ctx context.Context, see func(context.Context, *mqidem.DeadLetter) bool) error {
	return d.walkLocked(ctx, func(ctx context.Context, m *mqidem.DeadLetter) (mqidem.Verdict, error) {
		if !see(ctx, m) {
			return mqidem.Keep, errEnough
		}
		return mqidem.Keep, nil
	})
}

func (d *DeadLetters) walkLocked(ctx context.Context, see func(context.Context, *mqidem.DeadLetter) (mqidem.Verdict, error)) error {
	select {
	case d.walking <- struct{}{}:
		defer func() { <-d.walking }()
	case <-ctx.Done():
		return ctx.Err()
	}
	err := d.letters.Walk(ctx, see)
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// Choice selects dead letters.
type Choice struct {
	// Hashes are names by Hash. They are ignored if All is set.
	Hashes []string
	All    bool
	// Why and Consumer select by the reason and the consumer; empty: all.
	Why, Consumer string
	// Until selects those that became dead letters by then; nil: all.
	Until *time.Time
	// Most is how many letters are redriven or discarded at most; 0: all.
	Most int
	// Before, if set, is called before each letter that is selected, and nothing is done with that
	// letter until it returns. Its error ends the walk.
	Before func(context.Context, *mqidem.DeadLetter) error
}

// Wants reports whether the reason, the consumer and the time of m are selected.
func (c *Choice) Wants(m *mqidem.DeadLetter) bool {
	return (c.Why == "" || c.Why == m.Reason.Why) && (c.Consumer == "" || c.Consumer == m.Reason.Consumer) &&
		(c.Until == nil || !m.Reason.At.After(*c.Until))
}

// Disposed is what Redrive and Discard did.
type Disposed struct {
	// Done counts the letters that were sent again, or discarded. Gone counts those that were
	// removed since they had been done elsewhere.
	Done, Gone int
	// Hashes are those of the letters that Done and Gone count, in their order.
	Hashes []string
	// More reports whether Choice.Most left letters that are selected.
	More bool
	// Failed has an error for each letter that was left, with its hash.
	Failed []LetterError
}

// Counts says what was done, for the audit log.
func (o *Disposed) Counts() string {
	d := o.toJSON()
	return d.summary()
}

func (o *Disposed) toJSON() disposedJSON {
	d := disposedJSON{Done: o.Done, Gone: o.Gone, More: o.More}
	for _, f := range o.Failed {
		d.Failed = append(d.Failed, f.Hash+": "+errorCode(f.Err))
	}
	return d
}

// LetterError says why a dead letter was left.
type LetterError struct {
	Hash string
	Err  error
}

// Error has the hash and the reason.
func (e LetterError) Error() string { return e.Hash + ": " + e.Err.Error() }

// Unwrap returns the reason.
func (e LetterError) Unwrap() error { return e.Err }

// ErrNoLetter says that no dead letter has a hash.
var ErrNoLetter = errors.New("no dead message has this hash; is the secret the one that it was listed with?")

// eachChosen calls do for the chosen letters, and adds those that were not found to the failed.
func (d *DeadLetters) eachChosen(ctx context.Context, c *Choice, out *Disposed, do func(context.Context, *mqidem.DeadLetter) (mqidem.Verdict, error)) error {
	found := map[string]bool{}
	err := d.walkLocked(ctx, func(ctx context.Context, m *mqidem.DeadLetter) (mqidem.Verdict, error) {
		hash := d.Hash(m)
		if !c.Wants(m) || !c.All && !slices.Contains(c.Hashes, hash) {
			return mqidem.Keep, nil
		}
		if out.More = c.Most > 0 && out.Done+out.Gone+len(out.Failed) >= c.Most; out.More {
			return mqidem.Keep, errEnough
		}
		found[hash] = true
		if c.Before != nil {
			if err := c.Before(ctx, m); err != nil {
				return mqidem.Keep, err
			}
		}
		v, err := do(ctx, m)
		if err != nil && ctx.Err() == nil { // continue with the others
			out.Failed = append(out.Failed, LetterError{hash, err})
			return mqidem.Keep, nil
		}
		if err == nil {
			out.Hashes = append(out.Hashes, hash)
		}
		return v, err
	})
	for _, hash := range c.Hashes {
		if err == nil && !c.All && !found[hash] {
			out.Failed = append(out.Failed, LetterError{hash, ErrNoLetter})
		}
	}
	return err
}

// Redrive opens the records of letters and sends their messages to where they came from; see
// [mqidem.Redrive].
func (d *DeadLetters) Redrive(ctx context.Context, c *Choice, o *mqidem.RedriveOptions) (out Disposed, err error) {
	seen := map[string]string{} // message bodies by key
	err = d.eachChosen(ctx, c, &out, func(ctx context.Context, m *mqidem.DeadLetter) (mqidem.Verdict, error) {
		if body, ok := seen[m.Reason.Key]; ok && m.Reason.Key != "" && body == string(m.Message.Body) {
			out.Gone++ // a second entry of the same message
			return mqidem.Remove, nil
		}
		switch err := mqidem.Redrive(ctx, d.Engine(&m.Reason), d.letters, m, o); {
		case errors.Is(err, mqidem.ErrDoneElsewhere):
			out.Gone++
		case errors.Is(err, retrysafe.ErrInProgress):
			return mqidem.Keep, fmt.Errorf("a copy of it is being worked on; look again later: %w", err)
		case err != nil:
			return mqidem.Keep, err
		default:
			out.Done++
			seen[m.Reason.Key] = string(m.Message.Body)
		}
		return mqidem.Remove, nil
	})
	return out, err
}

// Discard removes letters. Their records stay as they are.
func (d *DeadLetters) Discard(ctx context.Context, c *Choice) (out Disposed, err error) {
	err = d.eachChosen(ctx, c, &out, func(context.Context, *mqidem.DeadLetter) (mqidem.Verdict, error) {
		out.Done++
		return mqidem.Remove, nil
	})
	return out, err
}
