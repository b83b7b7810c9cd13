package rpcidem

import (
	"context"
	"errors"
	"fmt"

	"github.com/retrysafe/retrysafe"
)

// DefaultMetadata is the name of the key in the metadata of a call.
const DefaultMetadata = "idempotency-key"

// Metadata returns the values of a name in the metadata of a call. The name is in lower case.
type Metadata func(name string) []string

// KeyMode says what happens to a call of a guarded method that has no key.
type KeyMode uint8

// The key modes.
const (
	// Optional runs a call without a key each time that it comes. It is the default.
	Optional KeyMode = iota + 1
	// Required refuses a call without a key: INVALID_ARGUMENT, KEY_MISSING.
	Required
)

// Options configure a [Guard].
type Options struct {
	// Tenant returns a stable principal of the caller (a service's name, a user id, never a
	// credential that rotates). It keeps one caller from reading another's answer. Required; use
	// [Global] if all callers share one key space. If it returns an error, the caller gets
	// UNAUTHENTICATED. An empty tenant is anonymous: its keys need MinKey characters.
	Tenant func(ctx context.Context, md Metadata) (string, error)
	// Binding returns the credential that a duplicate must also have, or nil. Only a keyed digest
	// of it is stored.
	Binding func(ctx context.Context, md Metadata) []byte
	// Methods reports whether a method is guarded, by its full name (/shop.v1.Orders/Place);
	// default all. Leave out methods that only read.
	Methods func(method string) bool
	// Key is Optional by default.
	Key KeyMode
	// Metadata is the name of the key; default [DefaultMetadata].
	Metadata string
	// MinKey is the shortest allowed key of the anonymous tenant; default 22, the length of 128
	// bits in base64.
	MinKey int
	// Policy inherits from the engine's policy.
	Policy retrysafe.Policy
	// Rate limits how often a tenant may call a guarded method, duplicates included; default no
	// limit.
	Rate retrysafe.Rate
	// NotRun are further codes that the methods answer before they act, such as Aborted: the key is
	// released, and a retry runs. List only what no guarded method answers after it has acted.
	// Default: none; those of [Code.NotRun] are always released. OK is refused, and under Refuse
	// also the codes that libraries use by themselves for a method that may have acted: Canceled,
	// Unknown, DeadlineExceeded, Internal and DataLoss.
	NotRun []Code
	// Classify returns what an answer of the method means for its key, instead of the table of
	// codes. A zero Outcome leaves the decision to the table. Marks of the method's error
	// (NothingDone, InDoubt) take precedence. Under Refuse it cannot turn an answer of a method
	// that ran into "nothing done", unless its code is one of NotRun.
	Classify func(code Code, err error) retrysafe.Outcome
	// Layer keeps the keys of these calls separate from others in the store; default "rpc".
	Layer string
}

// Global is the Tenant of services with one key space for all callers.
func Global(context.Context, Metadata) (string, error) { return "global", nil }

// Validate returns an error if o is invalid for an engine with the policy base.
func (o *Options) Validate(base retrysafe.Policy) error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf("rpcidem: "+format, args...)) }
	if o.Tenant == nil {
		wrong("Tenant is not set; name the caller by a stable id, or say rpcidem.Global if all callers are one")
	}
	if o.Key > Required {
		wrong("Key is %d; use Optional or Required", o.Key)
	}
	p := o.Policy.Or(base)
	for _, c := range o.NotRun {
		switch {
		case c == OK || c > Unauthenticated:
			wrong("NotRun has %v; use codes of failures that the methods answer before they act", c)
		case p.OnDoubt != retrysafe.Reexecute && c.mayHaveActed():
			wrong("NotRun has %v, which also comes after a method has acted; leave it out, or set Policy.OnDoubt to Reexecute", c)
		}
	}
	if o.MinKey < 0 || o.MinKey > 255 {
		wrong("MinKey is %d; use 1 to 255", o.MinKey)
	}
	if o.Rate != (retrysafe.Rate{}) {
		if err := o.Rate.Validate(); err != nil {
			wrong("Rate: %w", err)
		}
	}
	if p.Duplicate == retrysafe.Succeed {
		wrong("Policy.Duplicate is Succeed, and there is no answer that would fit every method; use Replay or Reject")
	}
	return errors.Join(append(errs, p.Validate())...)
}
