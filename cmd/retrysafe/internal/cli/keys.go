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
	"github.com/spf13/pflag"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/admin"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// keysFlags are the flags of all keys commands.
type keysFlags struct {
	store, namespace, layer, tenant, operation, state string
	user, since, until                                string
	inDoubt, json, reveal, raw, noSecret              bool
	limit                                             int
	seal                                              sealFlags

	longRunning bool         // the command keeps running, and logs warnings
	storeOwner  string       // whose store it is, for errors; default: the gateway
	log         *slog.Logger // set when the store is open
	unopenedErr error        // why the last record was not opened

	guessesSecret      bool     // warn of a missing secret if a namespace has no check value
	comparedNamespaces []string // namespaces whose secret was compared
	warnedNoSecret     bool     // that there is no secret
}

func keysCommand() *cobra.Command {
	f := keysFlags{guessesSecret: true}
	keys := &cobra.Command{
		Use:   "keys",
		RunE:  onlySubcommands,
		Short: "List the records of a store, and resolve those in doubt",
		Long: "keys reads the records of a store. A key can be a secret, so it is shown as a hash of 16 digits, keyed by\n" +
			"RETRYSAFE_SECRET. Set that to the value of the gateway. show, release and resolve accept the hash, the key\n" +
			"that the client sent, or the whole text of the record's key. list leaves out the audit log, the\n" +
			"check value of the secret and the marks of the store, unless --layer is audit, secret or mark.",
	}
	f.addStoreFlag(keys.PersistentFlags())
	keys.PersistentFlags().StringVar(&f.namespace, "namespace", "", "only this namespace")
	keys.PersistentFlags().StringVar(&f.layer, "layer", "", "only this layer; those of retrysafe: "+strings.Join(layers, " "))
	keys.PersistentFlags().BoolVar(&f.noSecret, "no-secret", false, "the service has no RETRYSAFE_SECRET; needed by resolve, release and show --reveal on Redis, PostgreSQL and MySQL without one")
	f.seal.addTo(keys.PersistentFlags())
	var answers answerSearch
	var who operator
	list := &cobra.Command{
		Use: "list", Args: cobra.NoArgs, Short: "List records",
		Long: "list lists records, without keys, tenants and answers.\n\n" + userHelp + "\n\n" +
			"--answer-location and --answer-text find a record by what its answer says, such as the id of a payment. They read the\n" +
			"stored answers one after the other and print which records have it, nothing of the answers. That is a look at what is\n" +
			"hidden: it needs a --reason, and is written to the audit log of the namespace first.",
		RunE: func(c *cobra.Command, _ []string) error { return f.listRecords(c, &answers, &who) },
	}
	f.addSelectionFlags(list)
	list.Flags().StringVar(&f.since, "since", "", `only records whose key was first used at this time or later: 2006-01-02, "2006-01-02 15:04", or a time ago such as 90m`)
	list.Flags().StringVar(&f.until, "until", "", "only records whose key was first used before this time")
	answers.addFlags(list)
	who.addFlags(list, "why, for the audit log; required with --answer-location and --answer-text")
	list.Flags().StringVar(&f.state, "state", "", "only this state: issued in-progress in-doubt completed failed released")
	list.Flags().BoolVar(&f.inDoubt, "in-doubt", false, "only records in doubt")
	list.Flags().IntVar(&f.limit, "limit", 0, "at most this many records; 0 is all")
	list.Flags().BoolVar(&f.json, "json", false, "print one JSON object per line")
	keys.AddCommand(list, showCommand(&f), quotaCommand(&f), releaseCommand(&f), resolveCommand(&f), exportCommand(&f), forgetUserCommand(&f))
	return keys
}

// openRecords opens an existing store and its records: reading records must not create a file.
func (f *keysFlags) openRecords(c *cobra.Command) (s storeapi.Store, d *admin.Records, closeStore func() error, err error) {
	if err := (&retrysafe.Options{Secret: []byte(os.Getenv("RETRYSAFE_SECRET"))}).Validate(); err != nil {
		return nil, nil, nil, &usageError{fmt.Errorf("RETRYSAFE_SECRET: %w", err)}
	}
	if n, _ := parseStore(f.store); n.path != "" {
		if _, err := os.Stat(n.path); err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				err = fmt.Errorf("there is no such file here; name the store of %s with --store or RETRYSAFE_STORE, or run this command in its directory", cmp.Or(f.storeOwner, "the gateway"))
			}
			return nil, nil, nil, fmt.Errorf("store %s: %w", f.store, err)
		}
	}
	f.log = f.newLogger(c)
	s, closeStore, err = openStore(c.Context(), f.store, f.log, toInspect, storeSettings{allowEviction: true})
	if err != nil {
		return nil, nil, nil, err
	}
	sealed, err := f.seal.sealStore(s, func(_ storeapi.StoreKey, why error) { f.unopenedErr = why })
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

// addStoreFlag adds the flag of the commands that open a store which gateways use too.
func (f *keysFlags) addStoreFlag(flags *pflag.FlagSet) {
	flags.StringVar(&f.store, "store", "sqlite:retrysafe.db", "the store, or RETRYSAFE_STORE: sqlite:PATH, redis://HOST, redis+sentinel://HOST/NAME, redis+cluster://HOST, postgres://HOST/DATABASE or mysql://HOST/DATABASE")
}

// listRequest is what the flags select.
func (f *keysFlags) listRequest() (req storeapi.ListRequest, err error) {
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

// eachRecord calls see with the records that a store selects by req, until see returns false.
// During a long walk it reports progress on errOut. unreadable is the number of records that this
// build cannot read.
func (f *keysFlags) eachRecord(ctx context.Context, d *admin.Records, req storeapi.ListRequest, errOut io.Writer, see func(*retrysafe.Record) bool) (unreadable int, err error) {
	read, progress := 0, reportProgress(errOut)
	err = d.Each(ctx, req, see, func(page *storeapi.Page) {
		read += page.Read
		progress(read)
		unreadable += len(page.Unreadable)
		for _, u := range page.Unreadable {
			fmt.Fprintf(errOut, "a record of layer %q and operation %q cannot be read by this build, and is left out: %s\n", u.Key.Layer, u.Key.Operation, Printable(u.Err.Error()))
		}
	})
	if err != nil {
		return unreadable, fmt.Errorf("keys: %w", err)
	}
	return unreadable, nil
}

// recordLine is a record in a list.
type recordLine struct {
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

func lineOf(d *admin.Records, rec *retrysafe.Record) recordLine {
	return recordLine{
		Hash: d.Hash(rec.Key), Namespace: rec.Key.Namespace, Layer: rec.Key.Layer, Operation: rec.Key.Operation, State: admin.StateOf(rec), Attempt: rec.Attempt,
		Fence: uint64(rec.Fence), AgeS: int64(rec.Age().Seconds()), Cause: admin.ShownCause(rec),
	}
}

func (f *keysFlags) listRecords(c *cobra.Command, answers *answerSearch, who *operator) (err error) {
	searches := !answers.query.IsZero()
	if searches {
		if err := f.checkAnswerSearch(answers, who); err != nil {
			return err
		}
	}
	s, d, closeStore, err := f.openRecords(c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeStore()) }()
	sel, err := f.selection(c, d)
	if err != nil {
		return err
	}
	if !searches {
		if f.namespace != "" {
			f.compareShown(c, d, f.namespace)
		}
		return f.printList(c, s, d, &sel, answers)
	}
	if err := f.requireSecret(c, d); err != nil {
		return err
	}
	return auditLog(s, f.namespace).Do(c.Context(), who.entry("search-answers", "namespace "+f.namespace, ""), func() error {
		return f.printList(c, s, d, &sel, answers)
	})
}

// checkAnswerSearch checks the flags of a search in answers, and sets the namespace whose audit log
// has its entry.
func (f *keysFlags) checkAnswerSearch(answers *answerSearch, who *operator) error {
	if err := answers.query.Validate(); err != nil {
		return &usageError{fmt.Errorf("--answer-text: %w", err)}
	}
	if err := f.setNamespace(); err != nil {
		return err
	}
	return who.validate(true)
}

// setNamespace makes app the namespace if none was given, or returns an error if one is needed.
func (f *keysFlags) setNamespace() error {
	if err := needsNamespace(f.store, f.namespace); err != nil {
		return &usageError{err}
	}
	f.namespace = cmp.Or(f.namespace, "app")
	return nil
}

// printList prints the records of a list.
func (f *keysFlags) printList(c *cobra.Command, s storeapi.Store, d *admin.Records, sel *admin.Selection, answers *answerSearch) error {
	w := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
	out := json.NewEncoder(c.OutOrStdout())
	if !f.json {
		fmt.Fprintln(w, "HASH\t"+f.namespaceColumn("NAMESPACE")+"LAYER\tOPERATION\tSTATE\tATTEMPT\tFENCE\tAGE\tCAUSE")
	}
	n := 0
	var failed error
	_, err := f.eachRecord(c.Context(), d, sel.ListRequest, c.ErrOrStderr(), func(rec *retrysafe.Record) bool {
		if isReserved(rec.Key.Layer) && f.layer != rec.Key.Layer {
			return true // the console shows the log
		}
		f.compareShown(c, d, rec.Key.Namespace)
		if !sel.Selects(rec) {
			return true
		}
		var matches bool
		if matches, failed = answers.matches(c, d, rec); failed != nil || !matches {
			return failed == nil && !answers.stopped
		}
		n++
		l := lineOf(d, rec)
		if f.json {
			_ = out.Encode(l) // the pipe may be closed; the walk then ends with the limit
		} else {
			fmt.Fprintf(w, "%s\t%s%s\t%s\t%s\t%d\t%d\t%s\t%s\n", l.Hash, f.namespaceColumn(l.Namespace), Printable(l.Layer), Printable(l.Operation), l.State, l.Attempt, l.Fence,
				time.Duration(l.AgeS)*time.Second, Printable(l.Cause))
		}
		if n%1000 == 0 {
			_ = w.Flush() // do not buffer a long list; the last Flush returns the error
		}
		return f.limit <= 0 || n < f.limit
	})
	err = errors.Join(err, failed, w.Flush())
	if len(f.comparedNamespaces) == 0 {
		err = errors.Join(err, f.warnNoSecret(c, false))
	}
	if err == nil && n == 0 {
		err = f.sayNothingFound(c, s, sel)
	}
	return errors.Join(err, answers.report(c.ErrOrStderr()))
}

// sayNothingFound says what an empty list may come from.
func (f *keysFlags) sayNothingFound(c *cobra.Command, s storeapi.Store, sel *admin.Selection) error {
	if err := f.checkLayer(c.Context(), s); err != nil {
		return err
	}
	where := ""
	if f.namespace != "" {
		where = " in namespace " + Printable(f.namespace)
	}
	if hint := secretHint(sel); where != "" || hint != "" {
		fmt.Fprintf(c.ErrOrStderr(), "nothing was found%s%s\n", where, hint)
	}
	return nil
}

// namespaceColumn returns the column of the namespace, which is left out if the flag selects one.
func (f *keysFlags) namespaceColumn(name string) string {
	if f.namespace != "" {
		return ""
	}
	return Printable(name) + "\t"
}

// findRecord returns the record that a hash, the key of a client or the text of a key names.
func (f *keysFlags) findRecord(c *cobra.Command, s storeapi.Store, d *admin.Records, name string) (retrysafe.Record, error) {
	sel, err := f.selection(c, d)
	if err != nil {
		return retrysafe.Record{}, err
	}
	key, err := d.FindIn(c.Context(), name, sel, reportProgress(c.ErrOrStderr()))
	var several *admin.AmbiguousError
	switch {
	case errors.Is(err, retrysafe.ErrSecretChanged):
		return retrysafe.Record{}, err
	case errors.As(err, &several):
		return retrysafe.Record{}, printCandidates(c, d, several)
	case errors.Is(err, retrysafe.ErrNotFound) && !admin.IsHash(name):
		return retrysafe.Record{}, errors.Join(f.checkLayer(c.Context(), s), fmt.Errorf("no record%s has the key %s%s; keys list shows the hashes of all, and --operation narrows it", f.namespacePhrase(), Printable(name), secretHint(&sel)))
	case errors.Is(err, retrysafe.ErrNotFound):
		return retrysafe.Record{}, errors.Join(f.checkLayer(c.Context(), s), fmt.Errorf("no record%s has the hash %s; %sis RETRYSAFE_SECRET the one of the gateway?", f.namespacePhrase(), name, f.namespaceHint()))
	case err != nil:
		return retrysafe.Record{}, err
	}
	return lookupRecord(c.Context(), d, key) // includes the answer, which lists omit
}

// namespacePhrase names the namespace that the flag selects, for errors.
func (f *keysFlags) namespacePhrase() string {
	if f.namespace == "" {
		return ""
	}
	return " of namespace " + Printable(f.namespace)
}

// namespaceHint asks whether the namespace is right, if the flag selects one.
func (f *keysFlags) namespaceHint() string {
	if f.namespace == "" {
		return ""
	}
	return "is that the namespace of the service, and "
}
