package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/admin"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// requireSameSecret refuses to act on a namespace that was used with another secret: the hashes in
// the audit log would be found by no one, and a program that finishes calls would make other keys.
func requireSameSecret(ctx context.Context, d *admin.Records, namespace string) error {
	_, err := d.CheckSecret(ctx, namespace)
	return asUsageError(err)
}

// requireSecret refuses to act on the namespace of the flags with another secret, or without one
// where the service probably has one.
func (f *keysFlags) requireSecret(c *cobra.Command, d *admin.Records) error {
	known, err := d.CheckSecret(c.Context(), f.namespace)
	if err != nil {
		return asUsageError(err)
	}
	if !known {
		return f.warnNoSecret(c, true)
	}
	return nil
}

// asUsageError makes another secret, if that is what err says, the mistake of the caller.
func asUsageError(err error) error {
	if errors.Is(err, retrysafe.ErrSecretChanged) {
		return &usageError{fmt.Errorf("nothing was done: %w", err)}
	}
	return err
}

// compareShown warns, once for each namespace, if what is shown of it has other hashes than the
// service shows and logs. Without a check value it can only guess.
func (f *keysFlags) compareShown(c *cobra.Command, d *admin.Records, namespace string) {
	if slices.Contains(f.comparedNamespaces, namespace) {
		return
	}
	f.comparedNamespaces = append(f.comparedNamespaces, namespace)
	known, err := d.CheckSecret(c.Context(), namespace)
	switch {
	case errors.Is(err, retrysafe.ErrSecretChanged):
		fmt.Fprintf(c.ErrOrStderr(), "hashes differ from those that the service shows and logs: %s\n", prefixedText(err))
	case err == nil && !known && f.guessesSecret:
		_ = f.warnNoSecret(c, false) // only warns
	}
}

// findChecked finds a record and compares the secret with that of its namespace. If the command
// acts on the record, another secret is an error, and otherwise a warning.
func (f *keysFlags) findChecked(c *cobra.Command, s storeapi.Store, d *admin.Records, name string, acts bool) (retrysafe.Record, error) {
	rec, err := f.findRecord(c, s, d, name)
	// The text of a key has its own namespace, whatever the flag says.
	namespace := cmp.Or(rec.Key.Namespace, f.namespace)
	switch {
	case errors.Is(err, retrysafe.ErrSecretChanged):
		if acts {
			err = asUsageError(err)
		}
		return rec, err
	case namespace == "": // none was found, and any could be meant
		if wrong := f.warnNoSecret(c, acts); wrong != nil {
			return rec, wrong
		}
	case !acts:
		f.compareShown(c, d, namespace)
	default:
		known, wrong := d.CheckSecret(c.Context(), namespace)
		wrong = asUsageError(wrong)
		if wrong == nil && !known {
			wrong = f.warnNoSecret(c, true)
		}
		if wrong != nil {
			return rec, wrong
		}
	}
	return rec, err
}

// namespaceFlags are the flags of the commands that work on what a namespace keeps in its store
// besides calls: the check value of the secret, and the marks.
type namespaceFlags struct {
	keysFlags

	operator operator
}

func secretCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "secret", RunE: onlySubcommands,
		Short: "Check the secret of a store, or replace it",
		Long: "secret works on the check value that a gateway keeps in its store, one for each namespace. From it every gateway and\n" +
			"command learns whether its RETRYSAFE_SECRET is the one that the store was used with. The secret itself is not stored.",
	}
	c.AddCommand(secretCheckCommand(), secretReplaceCommand())
	return c
}

func (f *namespaceFlags) addCommonFlags(c *cobra.Command) {
	f.addStoreFlag(c.Flags())
	c.Flags().StringVar(&f.namespace, "namespace", "", "the namespace of the service; required on Redis, PostgreSQL and MySQL, otherwise the default is app")
}

func secretCheckCommand() *cobra.Command {
	var f namespaceFlags
	c := &cobra.Command{
		Use: "check", Args: cobra.NoArgs, Short: "Check whether RETRYSAFE_SECRET is the secret of a namespace",
		Long: "check compares RETRYSAFE_SECRET with the check value of the namespace, and writes nothing. It exits with 0 if they\n" +
			"belong together or if there is no check value yet, with 1 if the namespace was used with another secret or if the\n" +
			"store does not answer, and with 2 for a wrong call.",
		RunE: func(c *cobra.Command, _ []string) error { return f.checkSecret(c) },
	}
	f.addCommonFlags(c)
	return c
}

func secretReplaceCommand() *cobra.Command {
	var f namespaceFlags
	c := &cobra.Command{
		Use: "replace --reason TEXT", Args: cobra.NoArgs, Short: "Make RETRYSAFE_SECRET the secret of a namespace",
		Long: "replace makes RETRYSAFE_SECRET the secret of the namespace. Callers that are known by a credential become new ones: a\n" +
			"retry of a request that was made before runs again. So replace a secret only if that does no harm, for example when no\n" +
			"client retries any more what was sent before, or if the secret is known to others.\n\n" +
			"First stop all gateways and services of the namespace: those that run keep the old secret and do not notice. Then\n" +
			"replace it, and start them with the new one. The audit log of the namespace gets an entry first.",
		RunE: func(c *cobra.Command, _ []string) error { return f.replaceSecret(c) },
	}
	f.addCommonFlags(c)
	c.Flags().BoolVar(&f.noSecret, "no-secret", false, "from now on the service has no RETRYSAFE_SECRET; needed on Redis, PostgreSQL and MySQL without one")
	f.seal.addTo(c.Flags())
	f.operator.addFlags(c, "why, for the audit log; required")
	return c
}

// openNamespace opens the store of the namespace.
func (f *namespaceFlags) openNamespace(c *cobra.Command) (storeapi.Store, *admin.Records, func() error, error) {
	if err := needsNamespace(f.store, f.namespace); err != nil {
		return nil, nil, nil, &usageError{err}
	}
	f.namespace = cmp.Or(f.namespace, "app")
	return f.openRecords(c)
}

func (f *namespaceFlags) checkSecret(c *cobra.Command) (err error) {
	_, d, closeStore, err := f.openNamespace(c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeStore()) }()
	known, err := d.CheckSecret(c.Context(), f.namespace)
	switch {
	case err != nil:
		return err
	case !known:
		fmt.Fprintf(c.OutOrStdout(), "namespace %s has no check value yet: the first gateway that starts on it writes one\n", Printable(f.namespace))
	case os.Getenv("RETRYSAFE_SECRET") == "":
		fmt.Fprintf(c.OutOrStdout(), "namespace %s was used without a secret, and RETRYSAFE_SECRET is not set\n", Printable(f.namespace))
	default:
		fmt.Fprintf(c.OutOrStdout(), "RETRYSAFE_SECRET is the secret of namespace %s\n", Printable(f.namespace))
	}
	return nil
}

func (f *namespaceFlags) replaceSecret(c *cobra.Command) (err error) {
	if err := f.operator.validate(true); err != nil {
		return err
	}
	secret := os.Getenv("RETRYSAFE_SECRET")
	if f.noSecret && secret != "" {
		return &usageError{errors.New("--no-secret is set, and RETRYSAFE_SECRET is too; unset one of them. Nothing was changed")}
	}
	if !f.noSecret {
		if err := needsSecret(f.store, []byte(secret)); err != nil {
			return &usageError{fmt.Errorf("%w. Say --no-secret if the service is to have none", err)}
		}
	}
	s, d, closeStore, err := f.openNamespace(c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeStore()) }()
	if known, err := d.CheckSecret(c.Context(), f.namespace); known && err == nil {
		already := "has this secret already"
		if secret == "" {
			already = "has no secret, as before"
		}
		fmt.Fprintf(c.OutOrStdout(), "namespace %s %s; nothing was changed\n", Printable(f.namespace), already)
		return nil
	}
	err = auditLog(s, f.namespace).Do(c.Context(), f.operator.entry("replace-secret", "namespace "+f.namespace, ""), func() error {
		_, err := d.ReplaceSecret(c.Context(), f.namespace)
		return err
	})
	if err != nil {
		return err
	}
	has, with := "has the secret of RETRYSAFE_SECRET", "with this secret"
	if secret == "" {
		has, with = "has no secret", "without RETRYSAFE_SECRET"
	}
	fmt.Fprintf(c.OutOrStdout(), "namespace %s %s now. Callers that are known by a credential are new ones: a retry of a request\n"+
		"that was made before runs again. Start all gateways and services of the namespace %s.\n", Printable(f.namespace), has, with)
	return nil
}
