package cli

import (
	"errors"
	"fmt"
	"os"
	"os/user"

	"github.com/spf13/cobra"

	"github.com/retrysafe/retrysafe/admin"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// operator is who changes something, and why. The audit log has both.
type operator struct{ by, reason string }

// addFlags adds the flags of an operator. why is the help of --reason. The default of --by is the
// user of the machine.
func (o *operator) addFlags(c *cobra.Command, why string) {
	name := os.Getenv("USER")
	if name == "" {
		name = "unknown"
		if u, err := user.Current(); err == nil && u.Username != "" {
			name = u.Username
		}
	}
	c.Flags().StringVar(&o.by, "by", name, "name of the operator, for the audit log")
	c.Flags().StringVar(&o.reason, "reason", "", why)
}

// validate returns an error if the audit log cannot have the name or the reason, or if a reason is
// needed and there is none.
func (o *operator) validate(needed bool) error {
	e := o.entry("", "", "")
	err := e.Validate()
	if needed {
		err = e.RequireReason()
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, admin.ErrName):
		return &usageError{fmt.Errorf("--by: %w", err)}
	}
	return &usageError{fmt.Errorf("--reason: %w", err)}
}

// entry returns an entry of the audit log.
func (o *operator) entry(action, object, detail string) admin.Entry {
	return admin.Entry{Who: o.by, Origin: admin.OriginCommand, Action: action, Object: object, Reason: o.reason, Detail: detail}
}

// auditLog returns the audit log of a namespace: the one that the console of its gateway shows.
func auditLog(s storeapi.Store, namespace string) *admin.Audit {
	return admin.NewAudit(s, namespace, 0)
}
