package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/admin"
)

func showCommand(f *keysFlags) *cobra.Command {
	var who operator
	c := &cobra.Command{
		Use: "show HASH|KEY [--reveal --reason TEXT]", Args: cobra.ExactArgs(1), Short: "Show one record",
		Long: "show shows one record. With --reveal it also shows the key, the tenant, the last error and the answer. That is written\n" +
			"to the audit log of the record's namespace first. If the log cannot be written, nothing is shown.\n\n" +
			"In an answer, characters that are not printable are shown as escapes, such as \\x1b: they could control the terminal.\n" +
			"Each line of the answer is indented. --raw prints the answer alone, byte for byte, for a file or a pipe.",
		RunE: func(c *cobra.Command, args []string) error { return f.showRecord(c, args[0], &who) },
	}
	f.addSelectionFlags(c)
	c.Flags().BoolVar(&f.reveal, "reveal", false, "show key, tenant and answer too")
	c.Flags().BoolVar(&f.raw, "raw", false, "with --reveal: print only the answer, byte for byte")
	who.addFlags(c, "why, for the audit log; required with --reveal")
	return c
}

func (f *keysFlags) showRecord(c *cobra.Command, name string, who *operator) (err error) {
	if f.raw && !f.reveal {
		return &usageError{errors.New("--raw belongs to --reveal")}
	}
	if f.reveal {
		if err := who.validate(true); err != nil {
			return err
		}
	}
	s, d, closeStore, err := f.openRecords(c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeStore()) }()
	rec, err := f.findChecked(c, s, d, name, f.reveal)
	if err != nil {
		return err
	}
	if !f.reveal {
		if err := f.printRecord(c.OutOrStdout(), d, &rec); err != nil {
			return err
		}
		if !rec.Answer.Sealed() && len(rec.Answer.Body) > 0 {
			fmt.Fprintln(c.ErrOrStderr(), "key, last error and body are hidden; --reveal with a --reason shows them")
		}
		return nil
	}
	if f.raw && !hasRawAnswer(&rec) {
		return fmt.Errorf("the record has no answer that --raw can print: it is %s, and its answer is %s", admin.StateOf(&rec), rec.Answer)
	}
	var text bytes.Buffer // nothing is shown unless both entries are stored
	err = auditLog(s, rec.Key.Namespace).Do(c.Context(), who.entry("reveal", d.Hash(rec.Key), ""), func() error {
		if f.raw {
			text.Write(rec.Answer.Body)
			return nil
		}
		return errors.Join(f.printRecord(&text, d, &rec), revealBody(&text, &rec))
	})
	if err != nil {
		return err
	}
	_, err = text.WriteTo(c.OutOrStdout())
	return err
}

// hasRawAnswer reports whether a record has an answer that this process can read.
func hasRawAnswer(rec *retrysafe.Record) bool {
	return rec.State.Finished() && rec.Answer.Kept && !rec.Answer.Sealed()
}

// printRecord prints what everybody may see of a record, and with --reveal its key, tenant and last
// error.
func (f *keysFlags) printRecord(out io.Writer, d *admin.Records, rec *retrysafe.Record) error {
	l := lineOf(d, rec)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(name string, v any) { fmt.Fprintf(w, "%s\t%v\n", name, v) }
	row("hash", l.Hash)
	row("namespace", Printable(l.Namespace))
	row("layer", Printable(l.Layer))
	row("operation", Printable(l.Operation))
	row("state", l.State)
	row("on doubt", rec.OnDoubt)
	row("attempt", l.Attempt)
	row("fence", l.Fence)
	row("lease left", rec.LeaseLeft)
	row("created", rec.Created.Format(time.RFC3339))
	row("updated", rec.Updated.Format(time.RFC3339))
	if !rec.DoubtSince.IsZero() {
		row("in doubt since", rec.DoubtSince.Format(time.RFC3339))
	}
	row("age", time.Duration(l.AgeS)*time.Second)
	if !rec.Expires.IsZero() {
		row("expires", rec.Expires.Format(time.RFC3339))
	}
	row("cause", Printable(l.Cause))
	progress, unread := retrysafe.ProgressOf(rec)
	switch {
	case rec.Answer.Sealed():
		row("answer", f.sealedReason())
	case rec.State.Finished():
		row("answer", Printable(rec.Answer.String()))
	case unread != nil:
		row("steps", Printable(unread.Error()))
	case rec.Answer.Codec != "":
		row("steps done", stepsText(stepNames(&progress)))
		row("input kept", progress.Input.Codec != "")
	}
	if f.reveal {
		text, _ := rec.Key.MarshalText()
		row("key", Printable(string(text)))
		row("tenant", Printable(rec.Key.Tenant))
		row("last error", errorText(rec.LastError))
	}
	return w.Flush()
}

// revealBody prints the answer of a record, or the input and the answers of its steps, if they are
// not sealed.
func revealBody(out io.Writer, rec *retrysafe.Record) (err error) {
	switch {
	case rec.Answer.Sealed():
	case !rec.State.Finished():
		progress, _ := retrysafe.ProgressOf(rec) // an unreadable one has no steps
		err = revealProgress(out, &progress)
	case len(rec.Answer.Body) > 0:
		_, err = fmt.Fprintf(out, "\n%s\n", indentBody(rec.Answer.Body))
	}
	return err
}

// sealedReason says that an answer is sealed, and why it was not opened.
func (f *keysFlags) sealedReason() string {
	if f.unopenedErr == nil {
		return "sealed; --seal-keys or RETRYSAFE_SEAL_KEYS opens it"
	}
	return "sealed; " + Printable(f.unopenedErr.Error())
}

// errorText returns the text of an error, or that it is sealed.
func errorText(text string) string {
	if strings.HasPrefix(text, "sealed:") {
		return "(sealed)"
	}
	return Printable(text)
}

// stepsText returns the names of the steps for people.
func stepsText(done, begun []string) string {
	text := strings.Join(done, ", ")
	if text == "" {
		text = "none"
	}
	if len(begun) > 0 {
		text += "; begun: " + strings.Join(begun, ", ")
	}
	return Printable(text)
}

// revealProgress prints the input and the answers of a half-done call.
func revealProgress(out io.Writer, p *retrysafe.Progress) (err error) {
	if p.Input.Codec != "" {
		_, err = fmt.Fprintf(out, "\ninput\n%s\n", indentBody(p.Input.Body))
	}
	for _, s := range p.Steps {
		if s.Finished && err == nil {
			_, err = fmt.Fprintf(out, "\nstep %s\n%s\n", Printable(s.Name), indentBody(s.Answer.Body))
		}
	}
	return err
}
