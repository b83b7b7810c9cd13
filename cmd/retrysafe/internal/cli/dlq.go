package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/retrysafe/retrysafe/admin"
	"github.com/retrysafe/retrysafe/mqidem"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// dlqFlags are the flags of all dlq commands.
type dlqFlags struct {
	keysFlags
	broker, queue, why, consumer string
	all, notDone                 bool
	operator                     operator
}

func dlqCommand() *cobra.Command {
	f := dlqFlags{broker: os.Getenv("RETRYSAFE_BROKER")}
	dlq := &cobra.Command{
		Use:   "dlq",
		RunE:  onlySubcommands,
		Short: "List dead letters, and redrive or discard them",
		Long: "dlq works on the dead-letter queue of a consumer. An id can be a secret, so a message is shown as a hash of 16\n" +
			"digits, keyed by RETRYSAFE_SECRET. \"retrysafe keys\" shows the same hash for its record. RETRYSAFE_BROKER can\n" +
			"hold the URL of the broker.\n\n" +
			"What redrive, discard and run do, and what show --reveal shows, is written to the audit log of the consumer's records.\n" +
			"With --store none there is no audit log.",
	}
	flags := dlq.PersistentFlags()
	flags.StringVar(&f.broker, "broker", f.broker, "the broker: amqp://HOST/VHOST, nats://HOST or redis://HOST")
	flags.Lookup("broker").DefValue = "" // it may have a password
	flags.StringVar(&f.queue, "queue", "", "queue of the consumer; NATS: STREAM/CONSUMER, Redis: STREAM/GROUP")
	flags.StringVar(&f.store, "store", "sqlite:retrysafe.db", "store of the consumer's records, or RETRYSAFE_STORE; \"none\" if its handlers keep no records")
	flags.StringVar(&f.why, "why", "", "only dead letters with this reason: "+strings.Join(deadReasons, " "))
	flags.StringVar(&f.consumer, "consumer", "", "only dead letters of this consumer")
	list := &cobra.Command{
		Use: "list", Args: cobra.NoArgs, Short: "List dead letters",
		RunE: func(c *cobra.Command, _ []string) error { return f.listLetters(c) },
	}
	list.Flags().IntVar(&f.limit, "limit", 0, "at most this many dead letters; 0 is all")
	list.Flags().BoolVar(&f.json, "json", false, "print one JSON object per line")
	dlq.AddCommand(list, dlqShowCommand(&f), dlqRedriveCommand(&f), dlqDiscardCommand(&f), dlqRunCommand(&f))
	return dlq
}

// reasons are those of dead letters.
var deadReasons = []string{
	mqidem.DeadTries, mqidem.DeadPoison, mqidem.DeadRefused, mqidem.DeadNoID, mqidem.DeadTooLarge, mqidem.DeadInDoubt,
	mqidem.DeadMismatch, mqidem.DeadUnreadable,
}

// dlqSession is what a dlq command works with.
type dlqSession struct {
	flags       *dlqFlags
	deadLetters *admin.DeadLetters
	queue       mqidem.DeadLetters
	store       storeapi.Store
	records     *admin.Records // nil, as store, if the handlers keep no records
	command     *cobra.Command
	errOut      io.Writer
}

// withLetters opens the broker and the store, and calls do.
func (f *dlqFlags) withLetters(c *cobra.Command, do func(context.Context, *dlqSession) error) (err error) {
	if f.why != "" && !slices.Contains(deadReasons, f.why) {
		return &usageError{fmt.Errorf("--why: there is no reason %q; use %s or %s", f.why,
			strings.Join(deadReasons[:len(deadReasons)-1], ", "), deadReasons[len(deadReasons)-1])}
	}
	f.storeOwner = "the consumer"
	ctx := c.Context()
	queue, err := openDeadLetters(ctx, f.broker, f.queue, newLogger(c.ErrOrStderr()))
	if err != nil {
		return err
	}
	defer queue.Close()
	d := &dlqSession{flags: f, queue: queue, command: c, errOut: c.ErrOrStderr()}
	if f.store != "none" {
		var closeStore func() error
		if d.store, d.records, closeStore, err = f.openRecords(c); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, closeStore()) }()
	}
	d.deadLetters = admin.NewDeadLetters(queue, d.records, []byte(os.Getenv("RETRYSAFE_SECRET")))
	return do(ctx, d)
}

// deadLine is a dead message in a list.
type deadLine struct {
	Hash     string `json:"hash"`
	Why      string `json:"why"`
	Consumer string `json:"consumer,omitempty"`
	Tries    int    `json:"tries"`
	Redrives int    `json:"redrives"`
	AgeS     int64  `json:"age_s"`
	Record   string `json:"record"`
	Source   string `json:"source"`
}

func (d *dlqSession) lineOf(ctx context.Context, m *mqidem.DeadLetter) deadLine {
	r := &m.Reason
	return deadLine{
		Hash: d.deadLetters.Hash(m), Why: r.Why, Consumer: r.Consumer, Tries: r.Tries, Redrives: r.Redrives, AgeS: int64(time.Since(r.At).Seconds()),
		Record: d.deadLetters.State(ctx, r), Source: m.Message.Source,
	}
}

// disposal is what the flags and the hashes select.
func (f *dlqFlags) disposal(hashes []string) *admin.Disposal {
	return &admin.Disposal{Letters: hashes, All: f.all, Why: f.why, Consumer: f.consumer, NotDone: f.notDone}
}

// selects reports whether --why and --consumer select a message.
func (f *dlqFlags) selects(m *mqidem.DeadLetter) bool { return f.disposal(nil).Choice().Wants(m) }

func (f *dlqFlags) listLetters(c *cobra.Command) error {
	return f.withLetters(c, func(ctx context.Context, d *dlqSession) error {
		w := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
		out := json.NewEncoder(c.OutOrStdout())
		if !f.json {
			fmt.Fprintln(w, "HASH\tWHY\tCONSUMER\tTRIES\tREDRIVES\tAGE\tRECORD\tSOURCE")
		}
		n := 0
		err := d.deadLetters.Walk(ctx, func(ctx context.Context, m *mqidem.DeadLetter) bool {
			if !f.selects(m) {
				return true
			}
			d.compareShown(m)
			l := d.lineOf(ctx, m)
			if f.json {
				_ = out.Encode(l) // the pipe may be closed; the walk then ends with the limit
			} else {
				fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%s\t%s\t%s\n", l.Hash, Printable(l.Why), Printable(l.Consumer), l.Tries, l.Redrives,
					time.Duration(l.AgeS)*time.Second, l.Record, Printable(l.Source))
			}
			n++
			return f.limit <= 0 || n < f.limit
		})
		return errors.Join(err, w.Flush())
	})
}
