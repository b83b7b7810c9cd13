package rpcidem

import (
	"context"
	"fmt"

	"github.com/retrysafe/retrysafe/httpidem"
)

// ClientOptions configure the client side of an adapter. The zero ClientOptions have the defaults.
type ClientOptions struct {
	// Metadata is the name of the key; default [DefaultMetadata].
	Metadata string
	// NewKey returns a key for a call that has none, a new one for each call. It covers the retries
	// made here, not those of the caller. A key needs at least 128 random bits; crypto/rand.Text is
	// enough. By default no key is made.
	NewKey func() string
	// Retry configures how calls with a key are retried.
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

// MetadataValue returns the value of the metadata for a call that does not have it yet: the key of
// [httpidem.ContextWithKey], or else one of NewKey. Empty means that the call has no key. An error
// is for the caller, does not show the key, and means that nothing was sent.
func (o *ClientOptions) MetadataValue(ctx context.Context) (string, error) {
	key, ok := httpidem.KeyFrom(ctx)
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
