package cli

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/retrysafe/retrysafe/admin"
	"github.com/retrysafe/retrysafe/stores/sealstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// dataKeysFlags are the flags of the commands that change data keys.
type dataKeysFlags struct {
	keysFlags

	operator operator
}

func (f *dataKeysFlags) addCommonFlags(c *cobra.Command, why string) {
	f.addStoreFlag(c.Flags())
	f.keysFlags.seal.addTo(c.Flags())
	f.operator.addFlags(c, why)
}

func rewrapCommand() *cobra.Command {
	var f dataKeysFlags
	c := &cobra.Command{
		Use: "rewrap", Args: cobra.NoArgs, Short: "Encrypt all data keys with the current master key",
		Long: "rewrap encrypts all data keys with the current master key. After it succeeds, and once all processes have the same\n" +
			"current key, older master keys can be removed. The audit log of --namespace gets an entry first.",
		RunE: func(c *cobra.Command, _ []string) error { return f.rewrapKeys(c) },
	}
	c.Flags().StringVar(&f.namespace, "namespace", "", "namespace whose audit log gets the entry; required on Redis, PostgreSQL and MySQL, otherwise the default is app")
	f.addCommonFlags(c, "why, for the audit log")
	return c
}

func forgetCommand() *cobra.Command {
	var f dataKeysFlags
	c := &cobra.Command{
		Use: "forget --namespace NAME --tenant TENANT --reason TEXT", Args: cobra.NoArgs, Short: "Destroy a tenant's data key, and so all its answers",
		Long: "forget destroys a tenant's data key. Its stored answers can no longer be decrypted; duplicates of its requests still run\n" +
			"nothing. Processes keep data keys in memory for at most seal.cache, 5 minutes by default.\n\n" +
			"The audit log of the namespace gets an entry first, with a hash of the tenant. The log has a data key of its own, so it\n" +
			"stays readable.",
		RunE: func(c *cobra.Command, _ []string) error { return f.forgetTenant(c) },
	}
	c.Flags().StringVar(&f.namespace, "namespace", "", "the namespace of the gateway; app if it has none")
	c.Flags().StringVar(&f.tenant, "tenant", "", "the tenant, as keys show --reveal prints it")
	f.addCommonFlags(c, "why, for the audit log; required")
	return c
}

// openSealed opens an existing store whose keys are given.
func (f *keysFlags) openSealed(c *cobra.Command) (*sealstore.Store, *admin.Records, func() error, error) {
	s, d, closeStore, err := f.openRecords(c)
	if err != nil {
		return nil, nil, nil, err
	}
	sealed, ok := s.(*sealstore.Store)
	if !ok {
		return nil, nil, nil, errors.Join(&usageError{errors.New("the master keys are needed: name the key file with --seal-keys, or set RETRYSAFE_SEAL_KEYS")}, closeStore())
	}
	return sealed, d, closeStore, nil
}

func (f *dataKeysFlags) rewrapKeys(c *cobra.Command) (err error) {
	if err := needsNamespace(f.store, f.namespace); err != nil {
		return &usageError{err}
	}
	if err := f.operator.validate(false); err != nil {
		return err
	}
	s, d, closeStore, err := f.openSealed(c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeStore()) }()
	if err := requireSameSecret(c.Context(), d, cmp.Or(f.namespace, "app")); err != nil {
		return err
	}
	begun, err := auditLog(s, cmp.Or(f.namespace, "app")).Begin(c.Context(), f.operator.entry("rewrap", "data keys", ""))
	if err != nil {
		return err
	}
	n, err := s.Rewrap(c.Context())
	fmt.Fprintf(c.OutOrStdout(), "%d data keys were wrapped again\n", n)
	return begun.End(c.Context(), fmt.Sprintf("%d data keys", n), err)
}

func (f *dataKeysFlags) forgetTenant(c *cobra.Command) (err error) {
	switch {
	case !c.Flags().Changed("tenant") || f.namespace == "":
		return &usageError{errors.New("--namespace and --tenant are needed")}
	case f.namespace == sealstore.Namespace:
		return &usageError{errors.New("--namespace: " + sealstore.Namespace + " has the data keys of audit logs, which are never destroyed")}
	}
	if err := f.operator.validate(true); err != nil {
		return err
	}
	s, d, closeStore, err := f.openSealed(c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeStore()) }()
	if err := requireSameSecret(c.Context(), d, f.namespace); err != nil {
		return err
	}
	tenant := sealstore.Tenant{Namespace: f.namespace, Name: f.tenant}
	object := "tenant " + tenantHash(d, tenant)
	err = auditLog(s, f.namespace).Do(c.Context(), f.operator.entry("forget", object, ""), func() error {
		err := s.Forget(c.Context(), tenant)
		if errors.Is(err, sealstore.ErrNoKey) {
			return &admin.Problem{Status: http.StatusNotFound, Code: "not-found", Detail: "nothing was destroyed: " + sealstore.ErrNoKey.Error()}
		}
		return err
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(c.OutOrStdout(), "the data key of the tenant is destroyed; the audit log calls it %s\n", object)
	return nil
}

// tenantHash returns what stands for a tenant in the audit log. Its name is as secret as a key.
func tenantHash(d *admin.Records, t sealstore.Tenant) string {
	return d.Hash(storeapi.StoreKey{Namespace: t.Namespace, Layer: "data-key", Key: storeapi.Key{Tenant: t.Name, Operation: "forget", ID: "tenant"}})
}
