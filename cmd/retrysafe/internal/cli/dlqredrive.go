package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/admin"
	"github.com/retrysafe/retrysafe/mqidem"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

func dlqRedriveCommand(f *dlqFlags) *cobra.Command {
	c := &cobra.Command{
		Use: "redrive HASH… | --all --reason TEXT", Short: "Put dead letters back in their queue",
		Long: "redrive first reopens the record of a message and then publishes the message. In the other order, the consumer would\n" +
			"drop the message as a duplicate. A message that was interrupted in between is listed as open; redrive it again. A\n" +
			"dead letter whose message was done in the meantime is removed.",
		RunE: func(c *cobra.Command, args []string) error { return f.redriveLetters(c, args) },
	}
	c.Flags().BoolVar(&f.all, "all", false, "all dead letters that --why and --consumer select")
	c.Flags().BoolVar(&f.notDone, "not-done", false, "also messages in doubt or without a record: an operator has verified that nothing was done")
	f.addAuditFlags(c, "why, for the audit log; required unless --store is none")
	return c
}

func dlqDiscardCommand(f *dlqFlags) *cobra.Command {
	c := &cobra.Command{
		Use: "discard HASH… | --all --reason TEXT", Short: "Delete dead letters",
		Long: "discard deletes messages from the dead-letter queue. Their records stay, so copies that arrive later are acked and not\n" +
			"run. A later copy of a message in doubt becomes a dead letter again: resolve its record with \"retrysafe keys resolve\".",
		RunE: func(c *cobra.Command, args []string) error { return f.discardLetters(c, args) },
	}
	c.Flags().BoolVar(&f.all, "all", false, "all dead letters that --why and --consumer select")
	f.addAuditFlags(c, "why, for the audit log; required unless --store is none")
	return c
}

// addAuditFlags adds the flags of show, redrive and discard for the audit log.
func (f *dlqFlags) addAuditFlags(c *cobra.Command, why string) {
	c.Flags().StringVar(&f.namespace, "namespace", "", "namespace of the consumer's records, if the first message has no record that says it")
	f.operator.addFlags(c, why)
}

func dlqRunCommand(f *dlqFlags) *cobra.Command {
	var rule mqidem.RedriverOptions
	var every time.Duration
	c := &cobra.Command{
		Use: "run", Args: cobra.NoArgs, Short: "Redrive dead letters at an interval, by a rule",
		Long: "run redrives messages that used up their tries (or those of --why, but never those in doubt) after --after, and each\n" +
			"at most --max-redrives times. Run only one per queue. SIGTERM ends it. With --every 0 it goes through the queue\n" +
			"once. Each message that it redrives has its entries in the audit log.",
		RunE: func(c *cobra.Command, _ []string) error { return f.runRedriver(c, rule, every) },
	}
	c.Flags().StringVar(&f.namespace, "namespace", "", "namespace of the consumer's records; required on Redis, PostgreSQL and MySQL, otherwise the default is app")
	c.Flags().DurationVar(&every, "every", time.Minute, "time between two passes")
	c.Flags().DurationVar(&rule.After, "after", time.Minute, "redrive a message that has been a dead letter for at least this time")
	c.Flags().IntVar(&rule.MaxRedrives, "max-redrives", 3, "redrive a message at most this many times")
	c.Flags().IntVar(&rule.Limit, "limit", 100, "redrive at most this many messages in one pass")
	f.operator.addFlags(c, "why, for the audit log")
	return c
}

// requireChoice checks that the call names messages, or asks for all.
func (f *dlqFlags) requireChoice(hashes []string) error {
	switch {
	case f.all && len(hashes) > 0:
		return &usageError{errors.New("name messages, or say --all, and not both")}
	case !f.all && len(hashes) == 0:
		return &usageError{errors.New("name messages by their hashes, as dlq list shows them, or say --all")}
	}
	return f.operator.validate(f.store != "none")
}

// disposalErrors returns the errors of the messages that were left, in the words of the flags.
func disposalErrors(out *admin.Disposed) error {
	errs := make([]error, len(out.Failed))
	for i, failed := range out.Failed {
		err := error(failed)
		switch {
		case errors.Is(err, admin.ErrNoLetter):
			err = noLetterError(failed.Hash)
		case errors.Is(err, mqidem.ErrMayBeDone), errors.Is(err, mqidem.ErrNoRecord):
			err = fmt.Errorf("%w (--not-done says that nothing was done)", failed)
		}
		errs[i] = err
	}
	return errors.Join(errs...)
}

func (f *dlqFlags) redriveLetters(c *cobra.Command, hashes []string) error {
	if err := f.requireChoice(hashes); err != nil {
		return err
	}
	return f.withLetters(c, func(ctx context.Context, d *dlqSession) error {
		out, err := d.disposeLetters(ctx, "redrive", hashes, func(choice *admin.Choice) (admin.Disposed, error) {
			return d.deadLetters.Redrive(ctx, choice, &mqidem.RedriveOptions{NotDone: f.notDone, By: f.operator.by})
		})
		if failed := errors.Join(disposalErrors(&out), err); failed != nil && out.Done+out.Gone == 0 {
			return failed // nothing was done that counts could say
		}
		fmt.Fprintf(c.OutOrStdout(), "%d put back, %d taken away that were done before\n", out.Done, out.Gone)
		return errors.Join(disposalErrors(&out), err)
	})
}

func (f *dlqFlags) discardLetters(c *cobra.Command, hashes []string) error {
	if err := f.requireChoice(hashes); err != nil {
		return err
	}
	return f.withLetters(c, func(ctx context.Context, d *dlqSession) error {
		out, err := d.disposeLetters(ctx, "discard", hashes, func(choice *admin.Choice) (admin.Disposed, error) {
			return d.deadLetters.Discard(ctx, choice)
		})
		if failed := errors.Join(disposalErrors(&out), err); failed != nil && out.Done == 0 {
			return failed
		}
		fmt.Fprintf(c.OutOrStdout(), "%d discarded\n", out.Done)
		return errors.Join(disposalErrors(&out), err)
	})
}

func (f *dlqFlags) runRedriver(c *cobra.Command, rule mqidem.RedriverOptions, every time.Duration) error {
	if f.why != "" {
		rule.Why = []string{f.why}
	}
	if rule.Consumer = f.consumer; rule.After == 0 {
		rule.After = -1
	}
	if f.store != "none" {
		if err := needsNamespace(f.store, f.namespace); err != nil {
			return &usageError{err}
		}
	}
	if err := f.operator.validate(false); err != nil {
		return err
	}
	f.longRunning = every != 0
	return f.withLetters(c, func(ctx context.Context, d *dlqSession) error {
		if d.records != nil {
			if err := requireSameSecret(ctx, d.records, cmp.Or(f.namespace, "app")); err != nil {
				return err
			}
		}
		rule.Logger = newLogger(d.errOut)
		var e *retrysafe.Engine
		if d.records != nil {
			e = d.records.Engine(storeapi.StoreKey{Namespace: f.namespace, Layer: "mq"})
		}
		d.auditRule(&rule)
		r, err := mqidem.NewRedriver(e, d.queue, &rule)
		if err != nil {
			return &usageError{err}
		}
		if every != 0 {
			return r.Run(ctx, every)
		}
		did, err := r.Once(ctx)
		fmt.Fprintf(c.OutOrStdout(), "%d put back, %d taken away that were done before, %d of %d are left for people\n", did.Sent, did.Gone, did.Kept, did.Seen)
		return err
	})
}
