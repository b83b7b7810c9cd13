package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/retrysafe/retrysafe/mqidem"
)

func dlqShowCommand(f *dlqFlags) *cobra.Command {
	c := &cobra.Command{
		Use: "show HASH [--reveal --reason TEXT]", Args: cobra.ExactArgs(1), Short: "Show one dead letter",
		Long: "show shows one dead letter. In its body, characters that are not printable are shown as escapes, such as \\x1b: they\n" +
			"could control the terminal. Each line of the body is indented.",
		RunE: func(c *cobra.Command, args []string) error { return f.showLetter(c, args[0]) },
	}
	c.Flags().BoolVar(&f.reveal, "reveal", false, "also show id, headers, last error and body")
	f.addAuditFlags(c, "why, for the audit log; required with --reveal, unless --store is none")
	return c
}

func (f *dlqFlags) showLetter(c *cobra.Command, hash string) error {
	if f.reveal {
		if err := f.operator.validate(f.store != "none"); err != nil {
			return err
		}
	}
	return f.withLetters(c, func(ctx context.Context, d *dlqSession) error {
		entries := letterAudit{session: d, entry: f.operator.entry("reveal", f.auditObject(), f.disposal([]string{hash}).Selection())}
		found := 0
		var failed error
		var text bytes.Buffer // what is hidden is not shown unless both entries are stored
		err := d.deadLetters.Walk(ctx, func(ctx context.Context, m *mqidem.DeadLetter) bool {
			d.compareShown(m)
			if !f.selects(m) || d.deadLetters.Hash(m) != hash {
				return true
			}
			found++
			if f.reveal {
				failed = entries.beginEntry(ctx, m)
			}
			if failed == nil {
				failed = d.printLetter(ctx, &text, m)
			}
			return failed == nil
		})
		err = errors.Join(err, failed)
		if err == nil && found == 0 {
			err = noLetterError(hash)
		}
		if entries.begun != nil {
			err = entries.begun.End(ctx, "", err)
		}
		if f.reveal && err != nil {
			return err
		}
		_, failed = text.WriteTo(c.OutOrStdout())
		return errors.Join(err, failed)
	})
}

func noLetterError(hash string) error {
	return fmt.Errorf("no dead message has the hash %s; is RETRYSAFE_SECRET the one that it was listed with?", Printable(hash))
}

func (d *dlqSession) printLetter(ctx context.Context, out io.Writer, m *mqidem.DeadLetter) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(name string, v any) { fmt.Fprintf(w, "%s\t%v\n", name, v) }
	l := d.lineOf(ctx, m)
	row("hash", l.Hash)
	row("why", Printable(l.Why))
	row("consumer", Printable(l.Consumer))
	row("tries", l.Tries)
	row("redrives", l.Redrives)
	row("dead since", m.Reason.At.Format(time.RFC3339))
	row("record", l.Record)
	row("source", Printable(l.Source))
	row("content type", Printable(m.Message.ContentType))
	row("bytes", len(m.Message.Body))
	if m.Reason.Cut != "" {
		row("cut", fmt.Sprintf("%s, since the broker took no more; the whole body has %d bytes, SHA-256 %s", m.Reason.Cut, m.Reason.Size, Printable(m.Reason.SHA256)))
	}
	if !d.flags.reveal {
		if err := w.Flush(); err != nil {
			return err
		}
		fmt.Fprintln(d.errOut, "id, headers, last error and body are hidden; --reveal with a --reason shows them")
		return nil
	}
	row("id", Printable(m.Message.ID))
	row("key", Printable(m.Message.Key))
	row("last error", Printable(m.Reason.Error))
	var names []string
	for name := range m.Message.Headers {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		row("header "+Printable(name), Printable(m.Message.Header(name)))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "\n%s\n", indentBody(m.Message.Body))
	return err
}
