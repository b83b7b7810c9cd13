package rpcidem

import (
	"context"
	"fmt"

	"github.com/retrysafe/retrysafe/httpidem"
)

// ClientOptions configure the client's part of an adapter. The zero ClientOptions are the defaults.
type ClientOptions struct {
	// Metadata is the name of the key; default [DefaultMetadata].
	Metadata string
	// NewKey makes the key of a call that has none, one for each call: it covers the tries made
	// here, not those of the caller. At least 128 random bits; Text of crypto/rand will do.
	// Default: none is made.
	NewKey func() string
	// Retry says how calls with a key are repeated.
	Retry Retry
}

// WithDefaults returns a copy of o with its defaults; o may be nil.
func (o *ClientOptions) WithDefaults() ClientOptions {
	own := ClientOptions{}
	if o != nil {
		own = *o
	}
	if own.Metadata == "" {
		own.Metadata = DefaultMetadata
	}
	return own
}

// Line makes the value of the metadata for a call that does not have it yet: the key of
// [httpidem.ContextWithKey], else one of NewKey. Empty: the call has no key. The error is for the
// caller, does not show the key, and means that nothing was sent.
func (o *ClientOptions) Line(ctx context.Context) (string, error) {
	key, ok := httpidem.KeyFromContext(ctx)
	if !ok && o.NewKey != nil {
		key, ok = o.NewKey(), true
	}
	if !ok {
		return "", nil
	}
	line, err := httpidem.FormatKey(key)
	if err != nil {
		return "", fmt.Errorf("the key of this call cannot be sent: %w; nothing was sent", err)
	}
	return line, nil
}
