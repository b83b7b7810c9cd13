package cli

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/retrysafe/retrysafe/admin"
	"github.com/retrysafe/retrysafe/mqidem"
	"github.com/retrysafe/retrysafe/storeapi"
)

// onLetters are the entries of an action on dead letters. The first one is written before the first
// message that is touched, whose record names the namespace of the log.
type onLetters struct {
	of    *letters
	entry admin.Entry
	begun *admin.Begun // nil until then, and without a store
}

func (l *onLetters) before(ctx context.Context, m *mqidem.DeadLetter) error {
	if l.begun != nil || l.of.store == nil {
		return nil
	}
	namespace, err := l.of.namespace(m)
	if err != nil {
		return err
	}
	if l.of.records != nil {
		if err := sameSecret(ctx, l.of.records, namespace); err != nil {
			return err
		}
	}
	l.begun, err = audit(l.of.store, namespace).Begin(ctx, l.entry)
	return err
}

// object says in the audit log what an action is done to.
func (f *dlqFlags) object() string { return "dead letters " + f.queue }

// dispose does an action on the messages that the flags and the hashes select, with its entries in
// the audit log. Without a store there is no log.
func (d *letters) dispose(ctx context.Context, action string, hashes []string, do func(*admin.Choice) (admin.Disposed, error)) (admin.Disposed, error) {
	in := d.flags.disposal(hashes)
	entries := onLetters{of: d, entry: d.flags.who.entry(action, d.flags.object(), in.Selection())}
	choice := in.Choice()
	choice.Before = entries.before
	out, err := do(choice)
	if slices.ContainsFunc(out.Failed, func(f admin.LetterError) bool { return errors.Is(f.Err, admin.ErrNoLetter) }) {
		err = errors.Join(err, d.otherSecret(ctx))
	}
	if entries.begun != nil {
		err = entries.begun.End(ctx, out.Counts(), err)
	}
	return out, err
}

// namespace returns the namespace whose audit log has what is done to m.
func (d *letters) namespace(m *mqidem.DeadLetter) (string, error) {
	var key storeapi.StoreKey
	if key.UnmarshalText([]byte(m.Reason.Key)) == nil {
		return key.Namespace, nil
	}
	if needsNamespace(d.flags.store, d.flags.namespace) != nil {
		return "", &usageError{errors.New("--namespace is needed: the first message has no record, which would say whose audit log this belongs to; nothing was done")}
	}
	return cmp.Or(d.flags.namespace, "app"), nil
}

// otherSecret returns an error if the records of the first message that has one were made with
// another secret: messages that are named by their hashes are then not found.
func (d *letters) otherSecret(ctx context.Context) error {
	if d.records == nil {
		return nil
	}
	var different error
	err := d.dead.Walk(ctx, func(ctx context.Context, m *mqidem.DeadLetter) bool {
		var key storeapi.StoreKey
		if key.UnmarshalText([]byte(m.Reason.Key)) != nil {
			return true
		}
		different = sameSecret(ctx, d.records, key.Namespace)
		return false
	})
	if different != nil {
		return different
	}
	return err
}

// compareShown warns if the namespace of a message that is shown was used with another secret.
func (d *letters) compareShown(m *mqidem.DeadLetter) {
	var key storeapi.StoreKey
	if d.records != nil && key.UnmarshalText([]byte(m.Reason.Key)) == nil {
		d.flags.compareShown(d.command, d.records, key.Namespace)
	}
}

// byRule writes the entries of each message that a rule redrives.
func (d *letters) byRule(rule *mqidem.RedriverOptions) {
	rule.By = d.flags.who.by
	if d.store == nil {
		return
	}
	log := audit(d.store, cmp.Or(d.flags.namespace, "app"))
	rule.Around = func(ctx context.Context, m *mqidem.DeadLetter, redrive func() error) error {
		in := admin.Disposal{Letters: []string{d.dead.Hash(m)}, Why: m.Reason.Why, Consumer: m.Reason.Consumer}
		return log.Do(ctx, d.flags.who.entry("redrive", d.flags.object(), in.Selection()+", by a rule"), redrive)
	}
}
