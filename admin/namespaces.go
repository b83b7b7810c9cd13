package admin

import (
	"errors"
	"net/http"
	"slices"

	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// reachesAll reports whether callers reach every namespace of the store.
func (o *Options) reachesAll() bool { return o.AllNamespaces || o.Namespace == "" }

// reachesNamespace reports whether callers reach a namespace.
func (o *Options) reachesNamespace(namespace string) bool {
	return o.reachesAll() || namespace == o.Namespace || slices.Contains(o.Namespaces, namespace)
}

// validateReach reports what of the namespaces cannot be.
func (o *Options) validateReach() error {
	if o.Namespace == "" && len(o.Namespaces) > 0 {
		return errors.New("admin: Namespaces are reached besides Namespace, and there is none; say it, or all of the store is reached")
	}
	return nil
}

// resolveNamespace returns the namespace that a caller names. Without a name it is the server's
// own.
func (c *apiCall) resolveNamespace(name string) (string, error) {
	if name == "" {
		name = c.o.Namespace
	}
	if !c.o.reachesNamespace(name) {
		return "", newProblem(http.StatusForbidden, "other-namespace", "this server does not reach this namespace; give it the namespace, or ask the one of that service")
	}
	return name, nil
}

// keyOf returns the key that a reference names. One of a namespace out of reach is none.
func (c *apiCall) keyOf(ref string) (storeapi.StoreKey, error) {
	key, err := c.records.refs.recordKey(ref)
	if err == nil && !c.o.reachesNamespace(key.Namespace) {
		return storeapi.StoreKey{}, errReference
	}
	return key, err
}

// auditLog returns the audit log of a namespace, or nil if this server has no audit log. Who looks
// after a service finds in its log what was done to its records, wherever it was done.
func (c *apiCall) auditLog(namespace string) *Audit {
	a := c.o.Audit
	if a == nil || a.namespace == namespace {
		return a
	}
	return NewAudit(a.store, namespace, a.retention)
}
