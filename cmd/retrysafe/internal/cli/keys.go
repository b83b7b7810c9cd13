package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/storeapi"
)

// keysFlags are the flags of all keys commands.
type keysFlags struct {
	store, namespace, layer, tenant, operation, state string
	inDoubt, json, reveal                             bool
	limit                                             int

	looks   bool                            // the command only reads
	log     *slog.Logger                    // set when the store is open
	engines map[[2]string]*retrysafe.Engine // by namespace and layer
}

func keysCommand() *cobra.Command {
	var f keysFlags
	keys := &cobra.Command{
		Use:   "keys",
		RunE:  onlySubcommands,
		Short: "Look at the records of a store, and settle what is in doubt",
		Long: "keys shows what a store knows. A key may be a secret: it is shown as a hash, 16 digits keyed by RETRYSAFE_SECRET,\n" +
			"which has to be the one of the gateway. show, release and resolve take that hash, or the whole text of a key.",
	}
	keys.PersistentFlags().StringVar(&f.store, "store", "sqlite:retrysafe.db", "the store, or RETRYSAFE_STORE: sqlite:PATH, redis://HOST, postgres://HOST/DATABASE or mysql://HOST/DATABASE")
	keys.PersistentFlags().StringVar(&f.namespace, "namespace", "", "only this namespace")
	keys.PersistentFlags().StringVar(&f.layer, "layer", "", "only this layer: "+strings.Join(layers, " "))
	list := &cobra.Command{
		Use: "list", Args: cobra.NoArgs, Short: "List records",
		RunE: func(c *cobra.Command, _ []string) error { return f.list(c) },
	}
	list.Flags().StringVar(&f.tenant, "tenant", "", "only this tenant")
	list.Flags().StringVar(&f.operation, "operation", "", `only this operation, for example "POST /orders"`)
	list.Flags().StringVar(&f.state, "state", "", "only this state: issued in-progress completed failed released")
	list.Flags().BoolVar(&f.inDoubt, "in-doubt", false, "only what may have taken effect and nobody knows")
	list.Flags().IntVar(&f.limit, "limit", 0, "end after so many; 0 is all")
	list.Flags().BoolVar(&f.json, "json", false, "one JSON object a line")
	show := &cobra.Command{
		Use: "show HASH|KEY", Args: cobra.ExactArgs(1), Short: "Show one record",
		RunE: func(c *cobra.Command, args []string) error { return f.show(c, args[0]) },
	}
	show.Flags().BoolVar(&f.reveal, "reveal", false, "show key, tenant and answer too")
	keys.AddCommand(list, show, releaseCommand(&f), resolveCommand(&f))
	return keys
}

// open opens an existing store: reading records must not create a file.
func (f *keysFlags) open(c *cobra.Command) (s storeapi.Store, closeStore func() error, err error) {
	if err := (&retrysafe.Options{Secret: []byte(os.Getenv("RETRYSAFE_SECRET"))}).Validate(); err != nil {
		return nil, nil, &usageError{fmt.Errorf("RETRYSAFE_SECRET: %w", err)}
	}
	if n, _ := parseStore(f.store); n.path != "" {
		if _, err := os.Stat(n.path); err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				err = errors.New("there is no such file here; name the store of the gateway with --store or RETRYSAFE_STORE, or go where it runs")
			}
			return nil, nil, fmt.Errorf("store %s: %w", f.store, err)
		}
	}
	f.log = f.warnings(c)
	return openStore(c.Context(), f.store, f.log, asItIs, storeSettings{allowEviction: true})
}

// engine returns an engine on the layer of a record. It does not sweep.
func (f *keysFlags) engine(s storeapi.Store, k storeapi.StoreKey) *retrysafe.Engine {
	of := [2]string{k.Namespace, k.Layer}
	if e := f.engines[of]; e != nil {
		return e
	}
	o := &retrysafe.Options{Namespace: k.Namespace, Secret: []byte(os.Getenv("RETRYSAFE_SECRET")), Sweep: -1, Logger: f.log}
	if f.engines == nil {
		f.engines = map[[2]string]*retrysafe.Engine{}
	}
	f.engines[of] = retrysafe.New(s, o).Layer(k.Layer)
	return f.engines[of]
}

// each calls see with the records that the flags select, until see returns false. During a long
// walk it reports progress on errOut.
func (f *keysFlags) each(ctx context.Context, s storeapi.Store, errOut io.Writer, see func(retrysafe.Record) bool) error {
	lister, ok := s.(storeapi.Lister)
	if !ok {
		return errors.New("this store cannot list its records")
	}
	req := storeapi.ListRequest{Namespace: f.namespace, Layer: f.layer, Tenant: f.tenant, Operation: f.operation, InDoubt: f.inDoubt, Limit: 1000}
	if f.state != "" {
		for s := retrysafe.StateIssued; s <= retrysafe.StateReleased; s++ {
			if s.String() == f.state {
				req.State = s
			}
		}
		if req.State == 0 {
			return &usageError{fmt.Errorf("--state %q: write issued, in-progress, completed, failed or released", f.state)}
		}
	}
	seen, told := 0, time.Now()
	for {
		page, err := lister.List(ctx, req)
		if err != nil {
			return fmt.Errorf("keys: %w", err)
		}
		for _, u := range page.Unreadable {
			fmt.Fprintf(errOut, "a record of layer %q and operation %q cannot be read by this build, and is left out: %s\n", u.Key.Layer, u.Key.Operation, printable(u.Err.Error()))
		}
		for _, rec := range page.Records {
			if !see(rec) {
				return nil
			}
		}
		if seen += len(page.Records); time.Since(told) > time.Second {
			told = time.Now()
			fmt.Fprintf(errOut, "… %d records\n", seen)
		}
		if req.After = page.Next; page.Next == "" {
			return nil
		}
	}
}

// line is a record in a list.
type line struct {
	Hash      string `json:"hash"`
	Layer     string `json:"layer"`
	Operation string `json:"operation"`
	State     string `json:"state"`
	Attempt   int    `json:"attempt"`
	Fence     uint64 `json:"fence"`
	AgeS      int64  `json:"age_s"`
	Cause     string `json:"cause,omitempty"`
}

func lineOf(e *retrysafe.Engine, rec *retrysafe.Record) line {
	state := rec.State.String()
	if rec.InDoubt() {
		state = "in-doubt"
	}
	return line{
		Hash: e.KeyHash(rec.Key.Key), Layer: rec.Key.Layer, Operation: rec.Key.Operation, State: state, Attempt: rec.Attempt,
		Fence: uint64(rec.Fence), AgeS: int64(rec.Now.Sub(rec.Updated).Seconds()), Cause: rec.Cause,
	}
}

// printable removes what could control the terminal, since the text came from outside.
func printable(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(s)
	}
	return s
}

func (f *keysFlags) list(c *cobra.Command) (err error) {
	f.looks = true
	s, closeStore, err := f.open(c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeStore()) }()
	w := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
	out := json.NewEncoder(c.OutOrStdout())
	if !f.json {
		fmt.Fprintln(w, "HASH\tLAYER\tOPERATION\tSTATE\tATTEMPT\tFENCE\tAGE\tCAUSE")
	}
	n := 0
	err = f.each(c.Context(), s, c.ErrOrStderr(), func(rec retrysafe.Record) bool {
		n++
		l := lineOf(f.engine(s, rec.Key), &rec)
		if f.json {
			_ = out.Encode(l) // the pipe may be closed; the walk then ends with the limit
		} else {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%d\t%s\t%s\n", l.Hash, printable(l.Layer), printable(l.Operation), l.State, l.Attempt, l.Fence,
				time.Duration(l.AgeS)*time.Second, printable(l.Cause))
		}
		if n%1000 == 0 {
			_ = w.Flush() // do not buffer a long list; the last Flush returns the error
		}
		return f.limit <= 0 || n < f.limit
	})
	if err == nil && n == 0 {
		err = f.nobodys(c.Context(), s)
	}
	return errors.Join(err, w.Flush())
}

// find returns the record that a hash or the text of a key names, and an engine on its layer.
func (f *keysFlags) find(c *cobra.Command, s storeapi.Store, name string) (*retrysafe.Engine, retrysafe.Record, error) {
	var key storeapi.StoreKey
	if key.UnmarshalText([]byte(name)) == nil {
		e := f.engine(s, key)
		rec, err := e.Lookup(c.Context(), key.Key)
		return e, rec, err
	}
	if len(name) != 16 || strings.Trim(name, "0123456789abcdef") != "" {
		return nil, retrysafe.Record{}, &usageError{errors.New("name the record by its hash of 16 digits, or by the whole text of its key")}
	}
	var found []storeapi.StoreKey
	err := f.each(c.Context(), s, c.ErrOrStderr(), func(rec retrysafe.Record) bool {
		if f.engine(s, rec.Key).KeyHash(rec.Key.Key) == name {
			found = append(found, rec.Key)
		}
		return true
	})
	switch {
	case err != nil:
		return nil, retrysafe.Record{}, err
	case len(found) == 0:
		if err := f.nobodys(c.Context(), s); err != nil {
			return nil, retrysafe.Record{}, err
		}
		return nil, retrysafe.Record{}, fmt.Errorf("no record has the hash %s; is RETRYSAFE_SECRET the one of the gateway?", name)
	case len(found) > 1:
		return nil, retrysafe.Record{}, fmt.Errorf("%d records have the hash %s; narrow it with --layer, or name the key", len(found), name)
	}
	e := f.engine(s, found[0])
	rec, err := e.Lookup(c.Context(), found[0].Key) // includes the answer, which lists omit
	return e, rec, err
}

func (f *keysFlags) show(c *cobra.Command, name string) (err error) {
	f.looks = true
	s, closeStore, err := f.open(c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeStore()) }()
	e, rec, err := f.find(c, s, name)
	if err != nil {
		return err
	}
	l := lineOf(e, &rec)
	w := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
	row := func(name string, v any) { fmt.Fprintf(w, "%s\t%v\n", name, v) }
	row("hash", l.Hash)
	row("layer", l.Layer)
	row("operation", printable(l.Operation))
	row("state", l.State)
	row("on doubt", rec.OnDoubt)
	row("attempt", l.Attempt)
	row("fence", l.Fence)
	row("lease left", rec.LeaseLeft)
	row("created", rec.Created.Format(time.RFC3339))
	row("updated", rec.Updated.Format(time.RFC3339))
	if !rec.Expires.IsZero() {
		row("expires", rec.Expires.Format(time.RFC3339))
	}
	row("cause", rec.Cause)
	progress, unread := retrysafe.ProgressOf(&rec)
	switch {
	case rec.State.Finished():
		row("answer", rec.Answer)
	case unread != nil:
		row("steps", unread)
	case rec.Answer.Codec != "":
		row("steps done", shownSteps(stepNames(&progress)))
		row("input kept", progress.Input.Codec != "")
	}
	if f.reveal {
		text, _ := rec.Key.MarshalText()
		row("key", string(text))
		row("last error", rec.LastError)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	switch {
	case f.reveal && !rec.State.Finished():
		err = reveal(c.OutOrStdout(), &progress)
	case f.reveal && len(rec.Answer.Body) > 0:
		_, err = fmt.Fprintf(c.OutOrStdout(), "\n%s\n", rec.Answer.Body)
	case f.reveal:
	case len(rec.Answer.Body) > 0:
		fmt.Fprintln(c.ErrOrStderr(), "key, last error and body are hidden; --reveal shows them")
	}
	return err
}

// shownSteps returns the names of the steps for people. The program defines them, so they are safe
// to print.
func shownSteps(done, begun []string) string {
	text := strings.Join(done, ", ")
	if text == "" {
		text = "none"
	}
	if len(begun) > 0 {
		text += "; begun: " + strings.Join(begun, ", ")
	}
	return text
}

// reveal prints the input and the answers of a half-done call.
func reveal(out io.Writer, p *retrysafe.Progress) (err error) {
	if p.Input.Codec != "" {
		_, err = fmt.Fprintf(out, "\ninput\n%s\n", p.Input.Body)
	}
	for _, s := range p.Steps {
		if s.Finished && err == nil {
			_, err = fmt.Fprintf(out, "\nstep %s\n%s\n", s.Name, s.Answer.Body)
		}
	}
	return err
}
