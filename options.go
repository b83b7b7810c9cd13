package retrysafe

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"
)

// Options configure an [Engine]. A nil *Options and zero fields select the defaults.
type Options struct {
	// Namespace is part of every key, so two applications on one store never share keys. All
	// processes of one application use the same namespace. It is required for a store on a server
	// that others may use too ([storeapi.Sharer]); for other stores, as in memory and on SQLite,
	// the default is "app". Another namespace is another key space: after a change, retries of
	// earlier calls run again.
	Namespace string
	// Policy is the default policy of calls and operations.
	Policy Policy
	// Secret keys the digests of credentials and the hashes of keys that people see. It must be the
	// same in all processes of one store, and must have at least 16 bytes. Without a secret they
	// are plain SHA-256, which can be guessed for short keys; the engine logs one warning about
	// that. Set it from the first day and do not change it: a tenant or a binding that is made from
	// a credential (httpidem.ByAuthorization) differs with another secret, so that a retry of an
	// earlier request runs again. [Engine.CheckSecret] notices another secret.
	Secret []byte
	// Codec encodes answers as bytes; default [JSON].
	Codec Codec
	// Trace receives the events of calls, for logs, metrics and spans.
	Trace *Trace
	// Sweep is how often expired records are removed, if the store can do that; default 1 minute,
	// negative never.
	Sweep time.Duration
	// Logger receives the engine's few warnings; default slog.Default().
	Logger *slog.Logger
}

// Validate returns an error that says what is wrong with o, or nil. [New] panics with that error.
func (o *Options) Validate() error {
	if o == nil {
		return nil
	}
	var errs []error
	if len(o.Namespace) > MaxPart {
		errs = append(errs, fmt.Errorf("retrysafe: options: Namespace has %d bytes, at most %d are allowed", len(o.Namespace), MaxPart))
	}
	if n := len(o.Secret); n > 0 && n < 16 {
		errs = append(errs, fmt.Errorf("retrysafe: options: Secret has %d bytes; use at least 16 random ones", n))
	}
	if o.Codec != nil && (o.Codec.Name() == "" || len(o.Codec.Name()) > 64 || strings.Contains(o.Codec.Name(), ";")) {
		errs = append(errs, errors.New("retrysafe: options: Codec.Name must have 1 to 64 bytes and no semicolon, since it is kept with each answer"))
	}
	return errors.Join(append(errs, o.Policy.Validate())...)
}

// The methods below show no secret, so that printing options by mistake discloses nothing.

// String returns the namespace, and whether a secret is set, without the secret.
func (o Options) String() string {
	return fmt.Sprintf("options (namespace %q, secret set %v)", o.Namespace, len(o.Secret) > 0)
}

// GoString returns the same as String.
func (o Options) GoString() string { return o.String() }

// LogValue returns the same as String.
func (o Options) LogValue() slog.Value { return slog.StringValue(o.String()) }
