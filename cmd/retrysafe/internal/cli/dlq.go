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
	"unicode"

	"github.com/spf13/cobra"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/memstore"
	"github.com/retrysafe/retrysafe/mqidem"
	"github.com/retrysafe/retrysafe/storeapi"
)

// dlqFlags are the flags of all dlq commands.
type dlqFlags struct {
	keysFlags
	broker, queue, why, consumer string
	all, notDone                 bool
	by                           string
}

func dlqCommand() *cobra.Command {
	f := dlqFlags{broker: os.Getenv("RETRYSAFE_BROKER")}
	dlq := &cobra.Command{
		Use:   "dlq",
		RunE:  onlySubcommands,
		Short: "Look at dead messages, and put them back or discard them",
		Long: "dlq works on the dead-letter queue of a consumer. An id may be a secret: a message is shown as a hash of 16 digits, keyed by\n" +
			"RETRYSAFE_SECRET, which is also that of its record in \"retrysafe keys\". The broker's URL can stand in RETRYSAFE_BROKER.",
	}
	flags := dlq.PersistentFlags()
	flags.StringVar(&f.broker, "broker", f.broker, "the broker: amqp://HOST/VHOST, nats://HOST or redis://HOST")
	flags.Lookup("broker").DefValue = "" // it may have a password
	flags.StringVar(&f.queue, "queue", "", "the consumer's queue; of NATS STREAM/CONSUMER, of Redis STREAM/GROUP")
	flags.StringVar(&f.store, "store", "sqlite:retrysafe.db", "the store of the consumer's records, or RETRYSAFE_STORE; \"none\" where its handlers keep none")
	flags.StringVar(&f.why, "why", "", "only dead ones with this reason: tries poison refused no-id too-large in-doubt mismatch unreadable")
	flags.StringVar(&f.consumer, "consumer", "", "only those of this consumer")
	list := &cobra.Command{
		Use: "list", Args: cobra.NoArgs, Short: "List dead messages",
		RunE: func(c *cobra.Command, _ []string) error { return f.list(c) },
	}
	list.Flags().IntVar(&f.limit, "limit", 0, "end after so many; 0 is all")
	list.Flags().BoolVar(&f.json, "json", false, "one JSON object a line")
	show := &cobra.Command{
		Use: "show HASH", Args: cobra.ExactArgs(1), Short: "Show one dead message",
		RunE: func(c *cobra.Command, args []string) error { return f.show(c, args[0]) },
	}
	show.Flags().BoolVar(&f.reveal, "reveal", false, "show id, headers, last error and body too")
	dlq.AddCommand(list, show, dlqRedriveCommand(&f), dlqDiscardCommand(&f), dlqRunCommand(&f))
	return dlq
}

// desk is what a dlq command works with.
type desk struct {
	*dlqFlags
	deadLetters mqidem.DeadLetters
	store       storeapi.Store // nil if the handlers keep no records
	plain       *retrysafe.Engine
	errOut      io.Writer
}

// at opens the broker and the store, and calls do.
func (f *dlqFlags) at(c *cobra.Command, do func(context.Context, *desk) error) (err error) {
	ctx := c.Context()
	deadLetters, closeDeadLetters, err := openDeadLetters(ctx, f.broker, f.queue, logger(c.ErrOrStderr()))
	if err != nil {
		return err
	}
	defer closeDeadLetters()
	d := &desk{dlqFlags: f, deadLetters: deadLetters, errOut: c.ErrOrStderr()}
	if f.store != "none" {
		var closeStore func() error
		if d.store, closeStore, err = f.open(c); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, closeStore()) }()
	}
	d.plain = retrysafe.New(memstore.New(nil), &retrysafe.Options{Secret: []byte(os.Getenv("RETRYSAFE_SECRET")), Sweep: -1, Logger: logger(d.errOut)})
	return do(ctx, d)
}

// engineOf returns an engine on the layer of a dead message's record, or nil if there is no record.
func (d *desk) engineOf(why *mqidem.Reason) *retrysafe.Engine {
	var key storeapi.StoreKey
	if d.store == nil || key.UnmarshalText([]byte(why.Key)) != nil {
		return nil
	}
	return d.engine(d.store, key)
}

// hash returns the name of a dead message. If it has a record, that is the record's name in the
// keys commands.
func (d *desk) hash(m *mqidem.DeadLetter) string {
	var key storeapi.StoreKey
	if key.UnmarshalText([]byte(m.Reason.Key)) != nil {
		key.Key = retrysafe.Key{Operation: "dlq", ID: retrysafe.KeyPart(m.Message.ID + "\n" + string(m.Message.Body))}
		return d.plain.KeyHash(key.Key)
	}
	if e := d.engineOf(&m.Reason); e != nil {
		return e.KeyHash(key.Key)
	}
	return d.plain.KeyHash(key.Key)
}

// wants reports whether the flags select a message.
func (d *desk) wants(m *mqidem.DeadLetter) bool {
	return (d.why == "" || d.why == m.Reason.Why) && (d.consumer == "" || d.consumer == m.Reason.Consumer)
}

// state returns the state of the record.
func (d *desk) state(ctx context.Context, why *mqidem.Reason) string {
	if why.Key == "" {
		return "none"
	}
	e := d.engineOf(why)
	if e == nil {
		return "unknown"
	}
	rec, found, err := mqidem.RecordOf(ctx, e, why)
	switch {
	case err != nil:
		return "unknown"
	case !found:
		return "gone"
	case rec.InDoubt():
		return "in-doubt"
	case rec.State == retrysafe.StateReleased:
		return "open" // reopened, and not redriven yet
	}
	return rec.State.String()
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

func (d *desk) line(ctx context.Context, m *mqidem.DeadLetter) deadLine {
	r := &m.Reason
	return deadLine{
		Hash: d.hash(m), Why: r.Why, Consumer: r.Consumer, Tries: r.Tries, Redrives: r.Redrives, AgeS: int64(time.Since(r.At).Seconds()),
		Record: d.state(ctx, r), Source: m.Message.Source,
	}
}

var errEnough = errors.New("enough")

// walk visits the messages that the flags select.
func (d *desk) walk(ctx context.Context, see func(context.Context, *mqidem.DeadLetter) (mqidem.Verdict, error)) error {
	err := d.deadLetters.Walk(ctx, func(ctx context.Context, m *mqidem.DeadLetter) (mqidem.Verdict, error) {
		if !d.wants(m) {
			return mqidem.Keep, nil
		}
		return see(ctx, m)
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

func (f *dlqFlags) list(c *cobra.Command) error {
	return f.at(c, func(ctx context.Context, d *desk) error {
		w := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
		out := json.NewEncoder(c.OutOrStdout())
		if !f.json {
			fmt.Fprintln(w, "HASH\tWHY\tCONSUMER\tTRIES\tREDRIVES\tAGE\tRECORD\tSOURCE")
		}
		n := 0
		err := d.walk(ctx, func(ctx context.Context, m *mqidem.DeadLetter) (mqidem.Verdict, error) {
			if f.limit > 0 && n >= f.limit {
				return mqidem.Keep, errEnough
			}
			n++
			l := d.line(ctx, m)
			if f.json {
				return mqidem.Keep, out.Encode(l)
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%s\t%s\t%s\n", l.Hash, printable(l.Why), printable(l.Consumer), l.Tries, l.Redrives,
				time.Duration(l.AgeS)*time.Second, l.Record, printable(l.Source))
			return mqidem.Keep, nil
		})
		return errors.Join(err, w.Flush())
	})
}

func (f *dlqFlags) show(c *cobra.Command, hash string) error {
	return f.at(c, func(ctx context.Context, d *desk) error {
		found := 0
		err := d.walk(ctx, func(ctx context.Context, m *mqidem.DeadLetter) (mqidem.Verdict, error) {
			if d.hash(m) != hash {
				return mqidem.Keep, nil
			}
			found++
			return mqidem.Keep, d.print(ctx, c.OutOrStdout(), m)
		})
		if err == nil && found == 0 {
			err = noSuch(hash)
		}
		return err
	})
}

func noSuch(hash string) error {
	return fmt.Errorf("no dead message has the hash %s; is RETRYSAFE_SECRET the one that it was listed with?", printable(hash))
}

func (d *desk) print(ctx context.Context, out io.Writer, m *mqidem.DeadLetter) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(name string, v any) { fmt.Fprintf(w, "%s\t%v\n", name, v) }
	l := d.line(ctx, m)
	row("hash", l.Hash)
	row("why", printable(l.Why))
	row("consumer", printable(l.Consumer))
	row("tries", l.Tries)
	row("redrives", l.Redrives)
	row("dead since", m.Reason.At.Format(time.RFC3339))
	row("record", l.Record)
	row("source", printable(l.Source))
	row("content type", printable(m.Message.ContentType))
	row("bytes", len(m.Message.Body))
	if m.Reason.Cut != "" {
		row("cut", fmt.Sprintf("%s, since the broker took no more; the whole body has %d bytes, SHA-256 %s", m.Reason.Cut, m.Reason.Size, printable(m.Reason.SHA256)))
	}
	if !d.reveal {
		if err := w.Flush(); err != nil {
			return err
		}
		fmt.Fprintln(d.errOut, "id, headers, last error and body are hidden; --reveal shows them")
		return nil
	}
	row("id", printable(m.Message.ID))
	row("key", printable(m.Message.Key))
	row("last error", printable(m.Reason.Error))
	var names []string
	for name := range m.Message.Headers {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		row("header "+printable(name), printable(m.Message.Header(name)))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	body := strings.Map(func(r rune) rune { // external data must not control the terminal
		if r == '\n' || r == '\t' || unicode.IsPrint(r) {
			return r
		}
		return '\uFFFD'
	}, string(m.Message.Body))
	_, err := fmt.Fprintf(out, "\n%s\n", body)
	return err
}
