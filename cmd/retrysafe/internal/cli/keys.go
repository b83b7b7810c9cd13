package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/admin"
	"github.com/retrysafe/retrysafe/storeapi"
)

// keysFlags are the flags of all keys commands.
type keysFlags struct {
	store, namespace, layer, tenant, operation, state string
	inDoubt, json, reveal, raw, noSecret              bool
	limit                                             int
	seal                                              sealFlags

	serves   bool         // the command keeps running, and logs warnings
	of       string       // whose store it is, for errors; default: the gateway
	log      *slog.Logger // set when the store is open
	unopened error        // why the last record was not opened

	guesses  bool     // warn of a missing secret if a namespace has no check value
	compared []string // namespaces whose secret was compared
	warned   bool     // that there is no secret
}

func keysCommand() *cobra.Command {
	f := keysFlags{guesses: true}
	keys := &cobra.Command{
		Use:   "keys",
		RunE:  onlySubcommands,
		Short: "List the records of a store, and resolve those in doubt",
		Long: "keys reads the records of a store. A key can be a secret, so it is shown as a hash of 16 digits, keyed by\n" +
			"RETRYSAFE_SECRET. Set that to the value of the gateway. show, release and resolve accept the hash, the key\n" +
			"that the client sent, or the whole text of the record's key. list leaves out the audit log and the\n" +
			"check value of the secret, unless --layer is audit or secret.",
	}
	keys.PersistentFlags().StringVar(&f.store, "store", "sqlite:retrysafe.db", "the store, or RETRYSAFE_STORE: sqlite:PATH, redis://HOST, redis+sentinel://HOST/NAME, redis+cluster://HOST, postgres://HOST/DATABASE or mysql://HOST/DATABASE")
	keys.PersistentFlags().StringVar(&f.namespace, "namespace", "", "only this namespace")
	keys.PersistentFlags().StringVar(&f.layer, "layer", "", "only this layer; those of retrysafe: "+strings.Join(layers, " "))
	keys.PersistentFlags().BoolVar(&f.noSecret, "no-secret", false, "the service has no RETRYSAFE_SECRET; needed by resolve, release and show --reveal on Redis, PostgreSQL and MySQL without one")
	f.seal.add(keys.PersistentFlags())
	list := &cobra.Command{
		Use: "list", Args: cobra.NoArgs, Short: "List records",
		RunE: func(c *cobra.Command, _ []string) error { return f.list(c) },
	}
	list.Flags().StringVar(&f.tenant, "tenant", "", "only this tenant")
	list.Flags().StringVar(&f.operation, "operation", "", `only this operation, for example "POST /orders"`)
	list.Flags().StringVar(&f.state, "state", "", "only this state: issued in-progress in-doubt completed failed released")
	list.Flags().BoolVar(&f.inDoubt, "in-doubt", false, "only records in doubt")
	list.Flags().IntVar(&f.limit, "limit", 0, "at most this many records; 0 is all")
	list.Flags().BoolVar(&f.json, "json", false, "print one JSON object per line")
	keys.AddCommand(list, showCommand(&f), quotaCommand(&f), releaseCommand(&f), resolveCommand(&f))
	return keys
}

// open opens an existing store and its records: reading records must not create a file.
func (f *keysFlags) open(c *cobra.Command) (s storeapi.Store, d *admin.Records, closeStore func() error, err error) {
	if err := (&retrysafe.Options{Secret: []byte(os.Getenv("RETRYSAFE_SECRET"))}).Validate(); err != nil {
		return nil, nil, nil, &usageError{fmt.Errorf("RETRYSAFE_SECRET: %w", err)}
	}
	if n, _ := parseStore(f.store); n.path != "" {
		if _, err := os.Stat(n.path); err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				err = fmt.Errorf("there is no such file here; name the store of %s with --store or RETRYSAFE_STORE, or go where it runs", cmp.Or(f.of, "the gateway"))
			}
			return nil, nil, nil, fmt.Errorf("store %s: %w", f.store, err)
		}
	}
	f.log = f.warnings(c)
	s, closeStore, err = openStore(c.Context(), f.store, f.log, asItIs, storeSettings{allowEviction: true})
	if err != nil {
		return nil, nil, nil, err
	}
	sealed, err := f.seal.wrap(s, func(_ storeapi.StoreKey, why error) { f.unopened = why })
	if err != nil {
		return nil, nil, nil, errors.Join(err, closeStore())
	}
	if sealed != nil {
		s = sealed
	}
	d, err = admin.NewRecords(s, &admin.RecordsOptions{Secret: []byte(os.Getenv("RETRYSAFE_SECRET")), Logger: f.log})
	if err != nil {
		return nil, nil, nil, errors.Join(err, closeStore())
	}
	return s, d, closeStore, nil
}

// selected is what the flags select.
func (f *keysFlags) selected() (req storeapi.ListRequest, err error) {
	req = storeapi.ListRequest{Namespace: f.namespace, Layer: f.layer, Tenant: f.tenant, Operation: f.operation, InDoubt: f.inDoubt, Asked: f.inDoubt}
	switch f.state {
	case "":
	case "in-doubt":
		req.InDoubt = true
	default:
		if req.State, err = admin.ParseState(f.state); err != nil {
			return req, &usageError{fmt.Errorf("--state: %w, or in-doubt", err)}
		}
	}
	return req, nil
}

// each calls see with the records that the flags select, until see returns false. During a long
// walk it reports progress on errOut.
func (f *keysFlags) each(ctx context.Context, d *admin.Records, errOut io.Writer, see func(*retrysafe.Record) bool) error {
	req, err := f.selected()
	if err != nil {
		return err
	}
	read, told := 0, time.Now()
	err = d.Each(ctx, req, see, func(page *storeapi.Page) {
		if read += page.Read; time.Since(told) > time.Second {
			told = time.Now()
			fmt.Fprintf(errOut, "… %d records\n", read)
		}
		for _, u := range page.Unreadable {
			fmt.Fprintf(errOut, "a record of layer %q and operation %q cannot be read by this build, and is left out: %s\n", u.Key.Layer, u.Key.Operation, Printable(u.Err.Error()))
		}
	})
	if err != nil {
		return fmt.Errorf("keys: %w", err)
	}
	return nil
}

// line is a record in a list.
type line struct {
	Hash      string `json:"hash"`
	Namespace string `json:"namespace"`
	Layer     string `json:"layer"`
	Operation string `json:"operation"`
	State     string `json:"state"`
	Attempt   int    `json:"attempt"`
	Fence     uint64 `json:"fence"`
	AgeS      int64  `json:"age_s"`
	Cause     string `json:"cause,omitempty"`
}

func lineOf(d *admin.Records, rec *retrysafe.Record) line {
	return line{
		Hash: d.Hash(rec.Key), Namespace: rec.Key.Namespace, Layer: rec.Key.Layer, Operation: rec.Key.Operation, State: admin.StateOf(rec), Attempt: rec.Attempt,
		Fence: uint64(rec.Fence), AgeS: int64(rec.Age().Seconds()), Cause: admin.ShownCause(rec),
	}
}

func (f *keysFlags) list(c *cobra.Command) (err error) {
	s, d, closeStore, err := f.open(c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeStore()) }()
	if f.namespace != "" {
		f.compareShown(c, d, f.namespace)
	}
	w := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
	out := json.NewEncoder(c.OutOrStdout())
	if !f.json {
		fmt.Fprintln(w, "HASH\t"+f.ofNamespace("NAMESPACE")+"LAYER\tOPERATION\tSTATE\tATTEMPT\tFENCE\tAGE\tCAUSE")
	}
	n := 0
	err = f.each(c.Context(), d, c.ErrOrStderr(), func(rec *retrysafe.Record) bool {
		if reserved(rec.Key.Layer) && f.layer != rec.Key.Layer {
			return true // the console shows the log
		}
		f.compareShown(c, d, rec.Key.Namespace)
		n++
		l := lineOf(d, rec)
		if f.json {
			_ = out.Encode(l) // the pipe may be closed; the walk then ends with the limit
		} else {
			fmt.Fprintf(w, "%s\t%s%s\t%s\t%s\t%d\t%d\t%s\t%s\n", l.Hash, f.ofNamespace(l.Namespace), Printable(l.Layer), Printable(l.Operation), l.State, l.Attempt, l.Fence,
				time.Duration(l.AgeS)*time.Second, Printable(l.Cause))
		}
		if n%1000 == 0 {
			_ = w.Flush() // do not buffer a long list; the last Flush returns the error
		}
		return f.limit <= 0 || n < f.limit
	})
	if len(f.compared) == 0 {
		err = errors.Join(err, f.noSecretWarning(c, false))
	}
	if err == nil && n == 0 {
		if err = f.nobodys(c.Context(), s); err == nil && f.namespace != "" {
			fmt.Fprintf(c.ErrOrStderr(), "nothing was found in namespace %s\n", Printable(f.namespace))
		}
	}
	return errors.Join(err, w.Flush())
}

// ofNamespace returns the column of the namespace, which is left out if the flag selects one.
func (f *keysFlags) ofNamespace(name string) string {
	if f.namespace != "" {
		return ""
	}
	return Printable(name) + "\t"
}

// find returns the record that a hash, the key of a client or the text of a key names.
func (f *keysFlags) find(c *cobra.Command, s storeapi.Store, d *admin.Records, name string) (retrysafe.Record, error) {
	req, err := f.selected()
	if err != nil {
		return retrysafe.Record{}, err
	}
	told := time.Now()
	key, err := d.Find(c.Context(), name, req, func(read int) {
		if time.Since(told) > time.Second {
			told = time.Now()
			fmt.Fprintf(c.ErrOrStderr(), "… %d records\n", read)
		}
	})
	switch {
	case errors.Is(err, retrysafe.ErrSecretChanged):
		return retrysafe.Record{}, err
	case errors.Is(err, retrysafe.ErrNotFound) && !admin.IsHash(name):
		return retrysafe.Record{}, errors.Join(f.nobodys(c.Context(), s), fmt.Errorf("no record%s has the key %s; keys list shows the hashes of all, and --operation narrows it", f.inNamespace(), Printable(name)))
	case errors.Is(err, retrysafe.ErrNotFound):
		return retrysafe.Record{}, errors.Join(f.nobodys(c.Context(), s), fmt.Errorf("no record%s has the hash %s; %sis RETRYSAFE_SECRET the one of the gateway?", f.inNamespace(), name, f.orNamespace()))
	case err != nil:
		return retrysafe.Record{}, err
	}
	return lookup(c.Context(), d, key) // includes the answer, which lists omit
}

// inNamespace names the namespace that the flag selects, for errors.
func (f *keysFlags) inNamespace() string {
	if f.namespace == "" {
		return ""
	}
	return " of namespace " + Printable(f.namespace)
}

// orNamespace asks whether the namespace is right, if the flag selects one.
func (f *keysFlags) orNamespace() string {
	if f.namespace == "" {
		return ""
	}
	return "is that the namespace of the service, and "
}
