package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/mqidem"
	"github.com/retrysafe/retrysafe/storeapi"
)

func dlqRedriveCommand(f *dlqFlags) *cobra.Command {
	c := &cobra.Command{
		Use: "redrive HASH… | --all", Short: "Put dead messages back where they came from",
		Long: "redrive opens the record of a message and then publishes the message: the other way round its copy would be taken for a repeat and\n" +
			"lost. What is interrupted in between is listed as open, and is redriven again. One whose copy was done meanwhile is taken away.",
		RunE: func(c *cobra.Command, args []string) error { return f.redrive(c, args) },
	}
	c.Flags().BoolVar(&f.all, "all", false, "all that --why and --consumer select, instead of those that are named")
	c.Flags().BoolVar(&f.notDone, "not-done", false, "also what is in doubt, or whose record is gone: somebody has found out that nothing was done")
	c.Flags().StringVar(&f.by, "by", os.Getenv("USER"), "who redrives, for the record")
	return c
}

func dlqDiscardCommand(f *dlqFlags) *cobra.Command {
	c := &cobra.Command{
		Use: "discard HASH… | --all", Short: "Take dead messages away for good",
		Long: "discard takes messages out of the dead-letter queue. Their records stay as they are: copies that still come are acked and not run.",
		RunE: func(c *cobra.Command, args []string) error { return f.discard(c, args) },
	}
	c.Flags().BoolVar(&f.all, "all", false, "all that --why and --consumer select, instead of those that are named")
	return c
}

func dlqRunCommand(f *dlqFlags) *cobra.Command {
	var rule mqidem.Rule
	var every time.Duration
	c := &cobra.Command{
		Use: "run", Args: cobra.NoArgs, Short: "Put back by rule what has died of trouble that has passed, now and every so often",
		Long: "run redrives what used up its tries (or died of --why, but never what is in doubt), when it has been a dead letter for a while, and not more often than\n" +
			"--max-redrives. One at a time should run for a queue. It ends with SIGTERM; --every 0 goes through the queue once.",
		RunE: func(c *cobra.Command, _ []string) error { return f.run(c, rule, every) },
	}
	c.Flags().StringVar(&f.namespace, "namespace", "", "that of the consumer's records; needed on Redis, PostgreSQL and MySQL, else app")
	c.Flags().DurationVar(&every, "every", time.Minute, "time between two runs")
	c.Flags().DurationVar(&rule.After, "after", time.Minute, "how long a message has been a dead letter at least")
	c.Flags().IntVar(&rule.MaxRedrives, "max-redrives", 3, "how often a message is put back at most")
	c.Flags().IntVar(&rule.Limit, "limit", 100, "how many are put back in one run")
	return c
}

// chosen checks that the call names messages, or asks for all.
func (f *dlqFlags) chosen(hashes []string) error {
	switch {
	case f.all && len(hashes) > 0:
		return &usageError{errors.New("name messages, or say --all, and not both")}
	case !f.all && len(hashes) == 0:
		return &usageError{errors.New("name messages by their hashes, as dlq list shows them, or say --all")}
	}
	return nil
}

// each calls do with the chosen messages, and reports those that were not found.
func (d *desk) each(ctx context.Context, hashes []string, do func(context.Context, *mqidem.DeadLetter) (mqidem.Verdict, error)) error {
	missing := map[string]bool{}
	for _, h := range hashes {
		missing[h] = true
	}
	var failed []error
	err := d.walk(ctx, func(ctx context.Context, m *mqidem.DeadLetter) (mqidem.Verdict, error) {
		hash := d.hash(m)
		if !d.all && !slices.Contains(hashes, hash) {
			return mqidem.Keep, nil
		}
		delete(missing, hash)
		v, err := do(ctx, m)
		if err != nil && ctx.Err() == nil { // continue with the others
			failed = append(failed, fmt.Errorf("%s: %w", hash, err))
			return mqidem.Keep, nil
		}
		return v, err
	})
	for _, h := range hashes {
		if missing[h] && err == nil {
			failed = append(failed, noSuch(h))
		}
	}
	return errors.Join(append(failed, err)...)
}

func (f *dlqFlags) redrive(c *cobra.Command, hashes []string) error {
	if err := f.chosen(hashes); err != nil {
		return err
	}
	return f.at(c, func(ctx context.Context, d *desk) error {
		sent, gone, seen := 0, 0, map[string]string{} // message bodies by key
		err := d.each(ctx, hashes, func(ctx context.Context, m *mqidem.DeadLetter) (mqidem.Verdict, error) {
			if body, ok := seen[m.Reason.Key]; ok && m.Reason.Key != "" && body == string(m.Message.Body) {
				// A second entry of the same message.
				gone++
				return mqidem.Remove, nil
			}
			switch err := mqidem.Redrive(ctx, d.engineOf(&m.Reason), d.deadLetters, m, f.notDone, f.by); {
			case errors.Is(err, mqidem.ErrDoneElsewhere):
				gone++
			case errors.Is(err, mqidem.ErrMayBeDone), errors.Is(err, mqidem.ErrNoRecord):
				return mqidem.Keep, fmt.Errorf("%w (--not-done says that nothing was done)", err)
			case errors.Is(err, retrysafe.ErrInProgress):
				return mqidem.Keep, errors.New("a copy of it is being worked on; look again later")
			case err != nil:
				return mqidem.Keep, err
			default:
				sent++
				seen[m.Reason.Key] = string(m.Message.Body)
			}
			return mqidem.Remove, nil
		})
		fmt.Fprintf(c.OutOrStdout(), "%d put back, %d taken away that were done before\n", sent, gone)
		return err
	})
}

func (f *dlqFlags) discard(c *cobra.Command, hashes []string) error {
	if err := f.chosen(hashes); err != nil {
		return err
	}
	return f.at(c, func(ctx context.Context, d *desk) error {
		n := 0
		err := d.each(ctx, hashes, func(context.Context, *mqidem.DeadLetter) (mqidem.Verdict, error) {
			n++
			return mqidem.Remove, nil
		})
		fmt.Fprintf(c.OutOrStdout(), "%d discarded\n", n)
		return err
	})
}

func (f *dlqFlags) run(c *cobra.Command, rule mqidem.Rule, every time.Duration) error {
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
	return f.at(c, func(ctx context.Context, d *desk) error {
		var e *retrysafe.Engine
		if d.store != nil {
			e = d.engine(d.store, storeapi.StoreKey{Namespace: f.namespace, Layer: "mq"})
		}
		r, err := mqidem.NewRedriver(e, d.deadLetters, rule, logger(d.errOut))
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
