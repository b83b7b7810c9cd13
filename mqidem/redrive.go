package mqidem

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// The errors of Redrive. After any of them but ErrDoneElsewhere nothing was sent, and the message
// stays in the dead-letter queue.
var (
	// ErrDoneElsewhere means that a copy of the message was done. There is nothing to redrive, and
	// the dead letter can be removed.
	ErrDoneElsewhere = errors.New("mqidem: the work of this message is done, by a copy of it")
	// ErrNoRecord means that the store has no such record, although it cannot have expired. So it
	// is not the consumer's store. The consumer would ack the copy as a duplicate.
	ErrNoRecord = errors.New("mqidem: the store does not know the record of this message, though its time has not passed; give the consumer's store, or say that nothing was done")
	// ErrMayBeDone means that an earlier try may have taken effect, and the consumer's policy
	// starts work at most once.
	ErrMayBeDone = errors.New("mqidem: an earlier try of this message may have taken effect; find that out, and then redrive it as not done, or discard it")
)

// RedriveOptions say who redrives a dead letter, and what they know.
type RedriveOptions struct {
	// NotDone says that an operator found out that nothing was done. It is for a message in doubt
	// under retrysafe.Refuse, and for one whose record is gone.
	NotDone bool
	// By is the name of who redrives. It is stored in the record.
	By string
}

// Redrive publishes a dead letter to its source again. It first reopens the record, by the fence
// that it has seen, and starts the count of tries again. Then it publishes the message. In the
// other order the copy would be acked as a duplicate of a failed message, and lost. If the caller
// dies in between, the message is still in the dead-letter queue and its record is open; redrive it
// again. If Redrive returns nil, the caller removes the message ([Remove]).
//
// e is an engine on the consumer's store and namespace; nil is for handlers that keep no record. o
// may be nil.
//
// Errors: [ErrDoneElsewhere], [ErrCut], [ErrMayBeDone], [ErrNoRecord], retrysafe.ErrInProgress (a
// consumer works on a copy), and failures of store and broker.
func Redrive(ctx context.Context, e *retrysafe.Engine, p DeadLetters, m *DeadLetter, o *RedriveOptions) error {
	if o == nil {
		o = new(RedriveOptions)
	}
	if m.Reason.Why == DeadUnreadable {
		return errReason
	}
	if m.Reason.Cut != "" {
		return ErrCut
	}
	if m.Reason.Key != "" {
		if err := reopenRecord(ctx, e, &m.Reason, o.NotDone, o.By); err != nil {
			return err
		}
	}
	again := m.Message.Clone()
	delete(again.Headers, HeaderDead)
	delete(again.Headers, HeaderTries)
	if again.Headers == nil {
		again.Headers = map[string][]byte{}
	}
	again.Headers[HeaderRedrives] = strconv.AppendInt(nil, int64(m.Reason.Redrives)+1, 10)
	if err := p.Send(ctx, again); err != nil {
		return fmt.Errorf("mqidem: the record is open, and the message could not be published; it stays in the dead-letter queue, redrive it again: %w", err)
	}
	return nil
}

// RecordOf looks up the record of a dead letter. It returns false if the handler keeps no records
// or the record has expired.
func RecordOf(ctx context.Context, e *retrysafe.Engine, why *Reason) (retrysafe.Record, bool, error) {
	e, key, err := recordKey(e, why)
	if err != nil || key == (retrysafe.Key{}) {
		return retrysafe.Record{}, false, err
	}
	rec, err := e.Lookup(ctx, key)
	if errors.Is(err, retrysafe.ErrNotFound) {
		return retrysafe.Record{}, false, nil
	}
	return rec, err == nil, err
}

// recordKey returns the key of a dead letter's record, and a view of the engine on its layer. A
// zero key means that it has no record.
func recordKey(e *retrysafe.Engine, why *Reason) (*retrysafe.Engine, retrysafe.Key, error) {
	if why.Key == "" {
		return nil, retrysafe.Key{}, nil
	}
	var key storeapi.StoreKey
	switch err := key.UnmarshalText([]byte(why.Key)); {
	case err != nil:
		return nil, retrysafe.Key{}, errReason
	case e == nil:
		return nil, retrysafe.Key{}, errors.New("mqidem: the consumer of this message keeps records: give an engine on its store, or its copy is taken for a duplicate and lost")
	case e.Namespace() != key.Namespace:
		return nil, retrysafe.Key{}, fmt.Errorf("mqidem: the record is in the namespace %q, and the engine is on %q; use the consumer's", key.Namespace, e.Namespace())
	}
	return e.Layer(key.Layer), key.Key, nil
}

// reopenRecord lets the next copy of a message run.
func reopenRecord(ctx context.Context, e *retrysafe.Engine, why *Reason, notDone bool, by string) error {
	rec, found, err := RecordOf(ctx, e, why)
	switch {
	case err != nil:
		return err
	case !found && !notDone && (why.Until.IsZero() || time.Now().Before(why.Until)):
		return ErrNoRecord
	case !found:
		return nil
	case rec.State == retrysafe.StateCompleted:
		return ErrDoneElsewhere
	case rec.InDoubt() && rec.OnDoubt == retrysafe.Refuse && !notDone:
		return ErrMayBeDone
	}
	err = e.Layer(rec.Key.Layer).Resolve(ctx, rec.Key.Key, retrysafe.Resolution{Fence: rec.Fence, Outcome: retrysafe.NotDone, Reopen: true, By: by})
	if errors.Is(err, retrysafe.ErrDuplicate) {
		return ErrDoneElsewhere
	}
	return err
}
