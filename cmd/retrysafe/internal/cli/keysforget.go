package cli

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/admin"
	"github.com/retrysafe/retrysafe/stores/sealstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

func forgetUserCommand(f *keysFlags) *cobra.Command {
	var who operator
	var dryRun bool
	c := &cobra.Command{
		Use: "forget --user CALLER --reason TEXT", Args: cobra.NoArgs, Short: "Remove what the store keeps about a caller, and run nothing again",
		Long: "forget removes from each finished record of a caller the answer, the digests of the request and of the credential, and\n" +
			"the text of the last error. The record stays until it expires, with the text of its key, so that a duplicate runs\n" +
			"nothing: it gets 409 answer-not-kept. --tenant names a caller by its tenant.\n\n" + userHelp + "\n\n" +
			"First look with --dry-run, which changes nothing. A record that is not finished is left and reported, since its work\n" +
			"would run again: resolve it, or wait, and repeat the command. A record that changes meanwhile is left too. The audit\n" +
			"log of the namespace gets an entry first, with a hash of the caller.\n\n" +
			"With --seal-keys or RETRYSAFE_SEAL_KEYS it also destroys the data key of the caller, as seal forget does, if no record\n" +
			"was left, and neither --operation nor --layer left any out. Copies of the records in backups can then not be opened either.",
		RunE: func(c *cobra.Command, _ []string) error { return f.forgetUser(c, &who, dryRun) },
	}
	f.addSelectionFlags(c)
	c.Flags().BoolVar(&dryRun, "dry-run", false, "only count what would be removed, and show what would be left")
	who.addFlags(c, "why, for the audit log; required without --dry-run")
	return c
}

// callerObject returns what stands for a caller in the audit log.
func (f *keysFlags) callerObject(d *admin.Records, sel *admin.Selection) string {
	names := sel.Tenants
	if len(names) == 0 {
		names = []string{f.tenant}
	}
	var hashes []string
	for _, name := range names {
		hashes = append(hashes, tenantHash(d, sealstore.Tenant{Namespace: f.namespace, Name: name}))
	}
	return "tenant " + strings.Join(hashes, ", ")
}

// forgetting counts what a forget does.
type forgetting struct {
	c                       *cobra.Command
	d                       *admin.Records
	dryRun                  bool
	forgotten, before, left int
	tenants                 map[string]bool // of the records that were seen
}

// see forgets a record, or says why it is left.
func (g *forgetting) see(rec *retrysafe.Record) error {
	g.tenants[rec.Key.Tenant] = true
	switch {
	case !rec.State.Finished():
		g.leaveRecord(rec, "is not finished: "+adviceFor(rec))
		return nil
	case isForgotten(rec):
		g.before++
		return nil
	case g.dryRun:
		g.forgotten++
		return nil
	}
	err := g.d.ForgetAnswer(g.c.Context(), rec.Key, rec.Fence)
	switch {
	case err == nil:
		g.forgotten++
	case errors.Is(err, storeapi.ErrFenceChanged), errors.Is(err, storeapi.ErrInProgress):
		g.leaveRecord(rec, "has changed meanwhile; repeat the command")
	case errors.Is(err, errors.ErrUnsupported):
		return errors.New("this store cannot remove an answer and keep the record")
	default:
		return fmt.Errorf("a record may have been forgotten or not, and others follow: repeat the command: %w", err)
	}
	return nil
}

// adviceFor says what a person does with a record that is not finished.
func adviceFor(rec *retrysafe.Record) string {
	switch {
	case rec.InDoubt():
		return "resolve it with keys resolve"
	case rec.State == retrysafe.StateReleased, rec.State == retrysafe.StateIssued:
		return "it may run again until it expires by itself"
	}
	return "wait until its attempt ends"
}

// isForgotten reports whether there is nothing of a person in a finished record, but its key.
func isForgotten(rec *retrysafe.Record) bool {
	a := &rec.Answer
	return a.Codec == "" && a.Body == nil && !a.Kept && rec.Fingerprint == nil && rec.Binding == nil && rec.LastError == ""
}

func (g *forgetting) leaveRecord(rec *retrysafe.Record, why string) {
	g.left++
	l := lineOf(g.d, rec)
	fmt.Fprintf(g.c.OutOrStdout(), "left: %s of %s, %s for %s, %s\n", l.Hash, Printable(l.Operation), l.State, time.Duration(l.AgeS)*time.Second, why)
}

func (f *keysFlags) forgetUser(c *cobra.Command, who *operator, dryRun bool) (err error) {
	if err := f.setNamespace(); err != nil {
		return err
	}
	if !dryRun {
		if err := who.validate(true); err != nil {
			return err
		}
	}
	s, d, closeStore, err := f.openRecords(c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeStore()) }()
	sel, err := f.selectCaller(c, d)
	if err != nil {
		return err
	}
	g := &forgetting{c: c, d: d, dryRun: dryRun, tenants: make(map[string]bool)}
	if dryRun {
		if err := g.seeAll(f, &sel); err != nil {
			return err
		}
		fmt.Fprintf(c.OutOrStdout(), "%d records would be forgotten, %d were before, %d would be left; nothing was changed\n", g.forgotten, g.before, g.left)
		return g.sayNothingFound(f, &sel)
	}
	begun, err := auditLog(s, f.namespace).Begin(c.Context(), who.entry("forget", f.callerObject(d, &sel), ""))
	if err != nil {
		return err
	}
	err = g.seeAll(f, &sel)
	counts := fmt.Sprintf("%d records forgotten, %d before, %d left", g.forgotten, g.before, g.left)
	fmt.Fprintln(c.OutOrStdout(), counts)
	if err == nil {
		err = g.destroyKeys(s, f, &sel)
	}
	if err = begun.End(c.Context(), counts, err); err == nil {
		err = g.sayNothingFound(f, &sel)
	}
	return err
}

// seeAll forgets the records of the caller. One that this build cannot read is left.
func (g *forgetting) seeAll(f *keysFlags, sel *admin.Selection) error {
	unreadable, err := f.eachOfCaller(g.c, g.d, sel, g.see)
	g.left += unreadable
	return err
}

// hasNewRecords reports whether the caller has got records that seeAll did not see.
func (g *forgetting) hasNewRecords(f *keysFlags, sel *admin.Selection) (found bool, err error) {
	unreadable, err := f.eachOfCaller(g.c, g.d, sel, func(rec *retrysafe.Record) error {
		found = found || !rec.State.Finished() || !isForgotten(rec)
		return nil
	})
	return found || unreadable > 0, err
}

// destroyKeys destroys the data keys of the caller, if the store is sealed and nothing was left
// that needs them.
func (g *forgetting) destroyKeys(s storeapi.Store, f *keysFlags, sel *admin.Selection) error {
	sealed, ok := s.(*sealstore.Store)
	switch {
	case !ok:
		return nil
	case f.operation != "" || f.layer != "" || f.since != "" || f.until != "":
		fmt.Fprintln(g.c.OutOrStdout(), "the data key of the caller stays: records that were not selected may need it")
		return nil
	case g.left > 0:
		fmt.Fprintln(g.c.OutOrStdout(), "the data key of the caller stays: the records that were left need it")
		return nil
	}
	if found, err := g.hasNewRecords(f, sel); err != nil || found {
		if found {
			fmt.Fprintln(g.c.OutOrStdout(), "the data key of the caller stays: the caller has made requests meanwhile; repeat the command")
		}
		return err
	}
	for tenant := range g.tenants {
		switch err := sealed.Forget(g.c.Context(), sealstore.Tenant{Namespace: f.namespace, Name: tenant}); {
		case errors.Is(err, sealstore.ErrNoKey):
		case err != nil:
			return err
		default:
			fmt.Fprintln(g.c.OutOrStdout(), "the data key of the caller is destroyed")
		}
	}
	return nil
}

// sayNothingFound returns an error if the caller has no record: it may have been named wrongly.
func (g *forgetting) sayNothingFound(f *keysFlags, sel *admin.Selection) error {
	if g.forgotten+g.before+g.left > 0 {
		return nil
	}
	return fmt.Errorf("no record%s is of this caller%s", f.namespacePhrase(), secretHint(sel))
}
