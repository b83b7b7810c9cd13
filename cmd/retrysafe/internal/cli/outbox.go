package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/retrysafe/retrysafe/admin"
	"github.com/retrysafe/retrysafe/outbox"
)

// outboxFlags are the flags of all outbox commands.
type outboxFlags struct {
	keysFlags
	outbox, topic string
	all, reveal   bool
	operator      operator
}

func outboxCommand() *cobra.Command {
	f := new(outboxFlags)
	c := &cobra.Command{
		Use:   "outbox",
		RunE:  onlySubcommands,
		Short: "List what an outbox holds up, and redrive or discard it",
		Long: "outbox works on the outbox in the database of a service. A message that its relay has given up is dead: it holds up\n" +
			"all later messages of its key. A message is named by its place in the order.\n\n" +
			"With --store, what redrive and discard do, and what list --reveal shows, is written to the audit log of that store.",
	}
	c.PersistentFlags().StringVar(&f.outbox, "outbox", "", "database with the outbox: sqlite:PATH, postgres://HOST/DATABASE or mysql://HOST/DATABASE")
	c.AddCommand(f.listCommand(), f.redriveCommand(), f.discardCommand())
	return c
}

func (f *outboxFlags) listCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "list", Args: cobra.NoArgs, Short: "Count the messages of an outbox, and list those that are dead",
		Long: "list prints how many messages are not published yet, how many of them were refused and are tried again later, and the\n" +
			"age of the oldest one. Then it lists the dead messages.",
		RunE: func(c *cobra.Command, _ []string) error {
			return f.withOutbox(c, func(box *outbox.Outbox) error { return f.listMessages(c, box) })
		},
	}
	c.Flags().BoolVar(&f.reveal, "reveal", false, "also show ids, keys and the last errors")
	c.Flags().StringVar(&f.topic, "topic", "", "only dead messages of this topic")
	c.Flags().IntVar(&f.limit, "limit", 0, "at most this many dead messages; 0 is all")
	c.Flags().BoolVar(&f.json, "json", false, "print one JSON object per line: the counts, then each dead message")
	f.addAuditFlags(c, "why, for the audit log; required with --reveal, unless --store is none")
	return c
}

func (f *outboxFlags) redriveCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "redrive PLACE… | --all", Short: "Publish dead messages again, in their places",
		Long: "redrive lets the relay publish dead messages again, each in its place before the later ones of its key. First mend what\n" +
			"the broker refuses: list --reveal shows its errors.",
		RunE: func(c *cobra.Command, args []string) error {
			return f.disposeMessages(c, args, "redrive", "%d to be published again\n", (*admin.Messages).Redrive)
		},
	}
	f.addDisposalFlags(c)
	return c
}

func (f *outboxFlags) discardCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "discard PLACE… | --all", Short: "Delete dead messages",
		Long: "discard deletes dead messages. They are never published, and the later messages of their keys are.",
		RunE: func(c *cobra.Command, args []string) error {
			return f.disposeMessages(c, args, "discard", "%d discarded\n", (*admin.Messages).Discard)
		},
	}
	f.addDisposalFlags(c)
	return c
}

func (f *outboxFlags) addDisposalFlags(c *cobra.Command) {
	c.Flags().BoolVar(&f.all, "all", false, "all dead messages that --topic selects")
	c.Flags().StringVar(&f.topic, "topic", "", "with --all: only dead messages of this topic")
	f.addAuditFlags(c, "why, for the audit log; required unless --store is none")
}

func (f *outboxFlags) addAuditFlags(c *cobra.Command, why string) {
	c.Flags().StringVar(&f.store, "store", "none", "store with the audit log, or RETRYSAFE_STORE; \"none\" if there is no audit log")
	c.Flags().StringVar(&f.namespace, "namespace", "", "namespace of the audit log; required on Redis, PostgreSQL and MySQL, otherwise the default is app")
	f.operator.addFlags(c, why)
}

// withOutbox opens the outbox, and calls do.
func (f *outboxFlags) withOutbox(c *cobra.Command, do func(*outbox.Outbox) error) error {
	if f.outbox == "" {
		return &usageError{errors.New("--outbox is needed: the database with the outbox, for example sqlite:shop.db or postgres://127.0.0.1/shop")}
	}
	box, closeBox, err := openOutbox(f.outbox, newLogger(c.ErrOrStderr()))
	if err != nil {
		return err
	}
	defer closeBox()
	return do(box)
}

// deadMessageLine is a dead message in a list. The last three fields are only revealed.
type deadMessageLine struct {
	Place    int64     `json:"place"`
	Topic    string    `json:"topic"`
	Attempts int       `json:"attempts"`
	Added    time.Time `json:"added"`
	Died     time.Time `json:"died"`
	ID       string    `json:"id,omitempty"`
	Key      string    `json:"key,omitempty"`
	Error    string    `json:"error,omitempty"`
}

func (f *outboxFlags) lineOf(m *outbox.DeadMessage) deadMessageLine {
	l := deadMessageLine{Place: m.Place, Topic: m.Topic, Attempts: m.Attempts, Added: m.Added.UTC(), Died: m.Died.UTC()}
	if f.reveal {
		l.ID, l.Key, l.Error = m.ID, m.Key, m.Error
	}
	return l
}

// outboxCounts counts the messages of an outbox.
type outboxCounts struct {
	Pending int     `json:"pending"`
	Waiting int     `json:"waiting"`
	Dead    int     `json:"dead"`
	OldestS float64 `json:"oldest_s"`
}

func (f *outboxFlags) listMessages(c *cobra.Command, box *outbox.Outbox) error {
	if !f.reveal {
		return f.printMessages(c.Context(), c.OutOrStdout(), box)
	}
	if err := f.operator.validate(f.store != "none"); err != nil {
		return err
	}
	return f.audit(c, f.operator.entry("reveal", f.auditObject(), ""), func() (string, error) {
		return "", f.printMessages(c.Context(), c.OutOrStdout(), box)
	})
}

func (f *outboxFlags) printMessages(ctx context.Context, out io.Writer, box *outbox.Outbox) error {
	s, err := box.Stats(ctx)
	if err != nil {
		return fmt.Errorf("outbox in %s: %w", withoutSecrets(f.outbox), err)
	}
	lines, w := json.NewEncoder(out), tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	var notWritten error
	if f.json {
		notWritten = lines.Encode(outboxCounts{s.Pending, s.Waiting, s.Dead, s.Oldest.Seconds()})
	} else {
		fmt.Fprintf(out, "%d pending, of which %d were refused and are tried again; the oldest is %v old\n%d dead\n", s.Pending, s.Waiting, s.Oldest.Round(time.Second), s.Dead)
	}
	n := 0
	err = admin.EachDead(ctx, box, func(m *outbox.DeadMessage) bool {
		if f.topic != "" && m.Topic != f.topic {
			return true
		}
		l := f.lineOf(m)
		if n++; f.json {
			notWritten = errors.Join(notWritten, lines.Encode(l))
		} else {
			if n == 1 {
				fmt.Fprintln(w, "PLACE\tTOPIC\tATTEMPTS\tADDED\tDIED\tID\tKEY\tERROR")
			}
			fmt.Fprintf(w, "%d\t%s\t%d\t%s\t%s\t%s\t%s\t%s\n", l.Place, Printable(l.Topic), l.Attempts, l.Added.Format(time.DateTime), l.Died.Format(time.DateTime),
				Printable(cmp.Or(l.ID, "-")), Printable(cmp.Or(l.Key, "-")), Printable(cmp.Or(l.Error, "-")))
		}
		return notWritten == nil && (f.limit <= 0 || n < f.limit)
	})
	if err != nil {
		err = fmt.Errorf("outbox in %s: %w", withoutSecrets(f.outbox), err)
	}
	return errors.Join(err, notWritten, w.Flush())
}

// disposeMessages redrives or discards the messages that the arguments and the flags select.
func (f *outboxFlags) disposeMessages(c *cobra.Command, places []string, action, done string, do func(*admin.Messages, context.Context, admin.Outbox) (int, error)) error {
	in := &admin.Disposal{All: f.all, Topic: f.topic, Count: math.MaxInt, Reason: f.operator.reason}
	for _, text := range places {
		place, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return &usageError{fmt.Errorf("%q is no place of a message: outbox list shows them, as numbers", text)}
		}
		in.Places = append(in.Places, place)
	}
	switch {
	case f.all == (len(places) > 0):
		return &usageError{errors.New("name messages by their places, as outbox list shows them, or say --all, and not both")}
	case f.topic == "" && c.Flags().Changed("topic"):
		return &usageError{errors.New("--topic is empty; leave it out for all topics")}
	case f.topic != "" && !f.all:
		return &usageError{errors.New("--topic belongs to --all")}
	}
	if err := f.operator.validate(f.store != "none"); err != nil {
		return err
	}
	return f.withOutbox(c, func(box *outbox.Outbox) error {
		dead, err := admin.SelectMessages(c.Context(), box, in)
		if err != nil {
			return fmt.Errorf("outbox in %s: %w", withoutSecrets(f.outbox), err)
		}
		var n int
		err = f.audit(c, f.operator.entry(action, f.auditObject(), dead.Describe(in)), func() (detail string, err error) {
			if n, err = do(dead, c.Context(), box); err != nil {
				return fmt.Sprintf("at least %d done; of the rest nothing is known", n), err
			}
			return fmt.Sprintf("%d done", n), nil
		})
		fmt.Fprintf(c.OutOrStdout(), done, n)
		return errors.Join(missingPlaces(in.Places, dead.Places), err)
	})
}

// auditObject returns what the entries of the audit log are about.
func (f *outboxFlags) auditObject() string { return "outbox " + withoutSecrets(f.outbox) }

// audit runs do with its entries in the audit log, if there is one.
func (f *outboxFlags) audit(c *cobra.Command, e admin.Entry, do func() (string, error)) (err error) {
	if f.store == "none" {
		_, err := do()
		return err
	}
	if err := needsNamespace(f.store, f.namespace); err != nil {
		return &usageError{err}
	}
	s, _, closeStore, err := f.openRecords(c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeStore()) }()
	begun, err := auditLog(s, cmp.Or(f.namespace, "app")).Begin(c.Context(), e)
	if err != nil {
		return err
	}
	detail, err := do()
	return begun.End(c.Context(), detail, err)
}

// missingPlaces returns an error for places at which there is no dead message.
func missingPlaces(asked, found []int64) error {
	var errs []error
	for _, place := range asked {
		if !slices.Contains(found, place) {
			errs = append(errs, fmt.Errorf("there is no dead message at place %d", place))
		}
	}
	return errors.Join(errs...)
}

// openOutbox opens the outbox in a database. An error does not quote the address.
func openOutbox(name string, log *slog.Logger) (*outbox.Outbox, func(), error) {
	n, err := parseStore(name)
	if err == nil && !n.hasTables() {
		err = errors.New("--outbox names a database: sqlite:PATH, postgres://HOST/DATABASE or mysql://HOST/DATABASE")
	}
	if err != nil {
		return nil, nil, &usageError{err}
	}
	db, dialect, err := n.openDatabase(toInspect, 4)
	if err != nil {
		return nil, nil, fmt.Errorf("outbox in %s: %w", n, err)
	}
	box, err := outbox.New(db, dialect, &outbox.Options{Logger: log})
	if err != nil {
		_ = db.Close()
		return nil, nil, fmt.Errorf("outbox in %s: %w", n, err)
	}
	return box, func() { _ = db.Close() }, nil
}
