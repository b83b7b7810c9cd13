package cli

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/retrysafe/retrysafe/admin"
	"github.com/retrysafe/retrysafe/mqidem"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// letterAudit are the entries of an action on dead letters. The first one is written before the
// first message that is touched, whose record names the namespace of the log.
type letterAudit struct {
	session *dlqSession
	entry   admin.Entry
	begun   *admin.Begun // nil until then, and without a store
}

func (l *letterAudit) beginEntry(ctx context.Context, m *mqidem.DeadLetter) error {
	if l.begun != nil || l.session.store == nil {
		return nil
	}
	namespace, err := l.session.namespaceOf(m)
	if err != nil {
		return err
	}
	if l.session.records != nil {
		if err := requireSameSecret(ctx, l.session.records, namespace); err != nil {
			return err
		}
	}
	l.begun, err = auditLog(l.session.store, namespace).Begin(ctx, l.entry)
	return err
}

// auditObject says in the audit log what an action is done to.
func (f *dlqFlags) auditObject() string { return "dead letters " + f.queue }

// disposeLetters does an action on the messages that the flags and the hashes select, with its
// entries in the audit log. Without a store there is no log.
func (d *dlqSession) disposeLetters(ctx context.Context, action string, hashes []string, do func(*admin.Choice) (admin.Disposed, error)) (admin.Disposed, error) {
	in := d.flags.disposal(hashes)
	entries := letterAudit{session: d, entry: d.flags.operator.entry(action, d.flags.auditObject(), in.Selection())}
	choice := in.Choice()
	choice.Before = entries.beginEntry
	out, err := do(choice)
	if slices.ContainsFunc(out.Failed, func(f admin.LetterError) bool { return errors.Is(f.Err, admin.ErrNoLetter) }) {
		err = errors.Join(err, d.checkSecret(ctx))
	}
	if entries.begun != nil {
		err = entries.begun.End(ctx, out.Counts(), err)
	}
	return out, err
}

// namespaceOf returns the namespace whose audit log has what is done to m.
func (d *dlqSession) namespaceOf(m *mqidem.DeadLetter) (string, error) {
	var key storeapi.StoreKey
	if key.UnmarshalText([]byte(m.Reason.Key)) == nil {
		return key.Namespace, nil
	}
	if needsNamespace(d.flags.store, d.flags.namespace) != nil {
		return "", &usageError{errors.New("--namespace is needed: the first message has no record, so that its namespace, whose audit log gets the entry, is unknown; nothing was done")}
	}
	return cmp.Or(d.flags.namespace, "app"), nil
}

// checkSecret returns an error if the records of the first message that has one were made with
// another secret: messages that are named by their hashes are then not found.
func (d *dlqSession) checkSecret(ctx context.Context) error {
	if d.records == nil {
		return nil
	}
	var different error
	err := d.deadLetters.Walk(ctx, func(ctx context.Context, m *mqidem.DeadLetter) bool {
		var key storeapi.StoreKey
		if key.UnmarshalText([]byte(m.Reason.Key)) != nil {
			return true
		}
		different = requireSameSecret(ctx, d.records, key.Namespace)
		return false
	})
	if different != nil {
		return different
	}
	return err
}

// compareShown warns if the namespace of a message that is shown was used with another secret.
func (d *dlqSession) compareShown(m *mqidem.DeadLetter) {
	var key storeapi.StoreKey
	if d.records != nil && key.UnmarshalText([]byte(m.Reason.Key)) == nil {
		d.flags.compareShown(d.command, d.records, key.Namespace)
	}
}

// auditRule writes the entries of each message that a rule redrives.
func (d *dlqSession) auditRule(rule *mqidem.RedriverOptions) {
	rule.By = d.flags.operator.by
	if d.store == nil {
		return
	}
	log := auditLog(d.store, cmp.Or(d.flags.namespace, "app"))
	rule.Around = func(ctx context.Context, m *mqidem.DeadLetter, redrive func() error) error {
		in := admin.Disposal{Letters: []string{d.deadLetters.Hash(m)}, Why: m.Reason.Why, Consumer: m.Reason.Consumer}
		return log.Do(ctx, d.flags.operator.entry("redrive", d.flags.auditObject(), in.Selection()+", by a rule"), redrive)
	}
}
