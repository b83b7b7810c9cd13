package rpcidem

import (
	"context"
	"errors"
	"fmt"

	"github.com/retrysafe/retrysafe"
)

// DefaultMetadata is the name of the key in the metadata of a call.
const DefaultMetadata = "idempotency-key"

// Metadata are the values of a name in the metadata of a call, in small letters.
type Metadata func(name string) []string

// Options configure a [Guard].
type Options struct {
	// Tenant names the caller by a stable principal (a service's name, a user id, never a
	// credential that rotates): it keeps one caller from reading another's answer. Required;
	// [Global] is for services that all callers share. An error is told as UNAUTHENTICATED. An
	// empty tenant is anonymous: its keys need MinKey characters.
	Tenant func(ctx context.Context, md Metadata) (string, error)
	// Binding returns the credential that a repeat must come with, or nil; only a keyed digest is
	// kept.
	Binding func(ctx context.Context, md Metadata) []byte
	// Methods tells which methods are guarded, by their full name (/shop.v1.Orders/Place); default
	// all. Leave out those that only read.
	Methods func(method string) bool
	// Required refuses calls without a key to guarded methods: INVALID_ARGUMENT, KEY_MISSING.
	Required bool
	// Metadata is the name of the key; default [DefaultMetadata].
	Metadata string
	// MinKey is the least length of keys of the anonymous tenant; default 22, the length of 128
	// bits in base64.
	MinKey int
	// Policy inherits the engine's.
	Policy retrysafe.Policy
	// Rate bounds how often a tenant may call a guarded method, repeats too; default: no bound.
	Rate retrysafe.Rate
	// Classify says what an answer of the method means for its key in place of the table of codes;
	// a zero Outcome leaves it to that. Marks of the method's error (NothingDone, InDoubt) come
	// first. Under Refuse it cannot turn an answer of a method that ran into "nothing done".
	Classify func(code Code, err error) retrysafe.Outcome
	// Layer keeps the keys of this surface apart from others on the store; default "rpc".
	Layer string
}

// Global is the tenant of services that do not tell callers apart: one key space for all.
func Global(context.Context, Metadata) (string, error) { return "global", nil }

// Validate says what is wrong with o for an engine with the policy base.
func (o *Options) Validate(base retrysafe.Policy) error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf("rpcidem: "+format, args...)) }
	if o.Tenant == nil {
		wrong("Tenant is not set; name the caller by a stable id, or say rpcidem.Global if all callers are one")
	}
	if o.MinKey < 0 || o.MinKey > 255 {
		wrong("MinKey is %d; use 1 to 255", o.MinKey)
	}
	if o.Rate != (retrysafe.Rate{}) {
		if err := o.Rate.Validate(); err != nil {
			wrong("Rate: %w", err)
		}
	}
	p := o.Policy.Or(base)
	if p.Duplicate == retrysafe.Succeed {
		wrong("Policy.Duplicate is Succeed, and there is no answer that would fit every method; use Replay or Reject")
	}
	return errors.Join(append(errs, p.Validate())...)
}
