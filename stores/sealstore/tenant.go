package sealstore

import "github.com/retrysafe/retrysafe/stores/storeapi"

// Tenant names whose data key it is: a tenant of a namespace. The audit log of a namespace, which
// must stay readable when tenants are forgotten, has a data key of its own: that of the tenant with
// the log's namespace as its Name, in [Namespace]. No record has such a tenant.
type Tenant struct{ Namespace, Name string }

// Namespace has the records of data keys, if they are kept in a [storeapi.Store]. A [Store] refuses
// other records in it.
const Namespace = "retrysafe-sealstore"

// auditLayer is the layer of the audit log, whose records have no tenant. Package admin writes it.
const auditLayer = "audit"

// tenantOf returns whose data key seals the record of a key.
func tenantOf(key *storeapi.StoreKey) Tenant {
	if key.Layer == auditLayer && key.Tenant == "" {
		return Tenant{Namespace, key.Namespace}
	}
	return Tenant{key.Namespace, key.Tenant}
}

// isAuditLog reports whether t stands for an audit log.
func (t Tenant) isAuditLog() bool { return t.Namespace == Namespace }

// keyOwner says for an error whose data key it is, without the name of a tenant.
func (t Tenant) keyOwner() string {
	if t.isAuditLog() {
		return "the audit log of " + t.Name
	}
	return "a tenant of " + t.Namespace
}

// recordKey returns the key of the record of a tenant's data key.
func (t Tenant) recordKey() storeapi.StoreKey {
	return storeapi.StoreKey{
		Namespace: Namespace, Layer: "data-key",
		Key: storeapi.Key{Tenant: t.Name, Operation: t.Namespace, ID: "data-key"},
	}
}
