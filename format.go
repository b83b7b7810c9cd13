package retrysafe

import (
	"fmt"
	"log/slog"

	"github.com/retrysafe/retrysafe/internal/enum"
)

// The methods below show no key, no answer and no secret, so that printing a value by mistake
// discloses nothing.

// String returns the operation and the number of the attempt.
func (a *Attempt) String() string { return fmt.Sprintf("attempt %d of %s", a.n, a.key.Operation) }

// GoString returns the same as String.
func (a *Attempt) GoString() string { return a.String() }

// LogValue returns the same as String.
func (a *Attempt) LogValue() slog.Value { return slog.StringValue(a.String()) }

// String returns the namespace, and whether a secret is set, without the secret.
func (o Options) String() string {
	return fmt.Sprintf("options (namespace %q, secret set %v)", o.Namespace, len(o.Secret) > 0)
}

// GoString returns the same as String.
func (o Options) GoString() string { return o.String() }

// LogValue returns the same as String.
func (o Options) LogValue() slog.Value { return slog.StringValue(o.String()) }

// String returns the constant's name in words.
func (d Duplicate) String() string { return enum.Name(d, "default", "replay", "reject", "succeed") }

// String returns the constant's name in words.
func (o Outcome) String() string {
	return enum.Name(o, "none", "done", "not done", "failed", "doubtful")
}
