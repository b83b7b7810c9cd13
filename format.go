package retrysafe

import (
	"fmt"
	"log/slog"
)

// The methods below show no key, no answer and no secret, so that printing a value by mistake
// discloses nothing.

// String returns the operation and the number of the attempt.
func (a *Attempt) String() string { return fmt.Sprintf("attempt %d of %s", a.n, a.key.Operation) }

// GoString returns the same as String.
func (a *Attempt) GoString() string { return a.String() }

// LogValue returns the same as String.
func (a *Attempt) LogValue() slog.Value { return slog.StringValue(a.String()) }

// String returns the operation and the state of the record, without key and answer. JSON and other
// encodings do show them.
func (r Record) String() string {
	state := r.State.String()
	if r.InDoubt() {
		state = "in doubt"
	}
	return fmt.Sprintf("%s: %s, attempt %d, fence %d, cause %q", r.Key.Operation, state, r.Attempt, r.Fence, r.Cause)
}

// GoString returns the same as String.
func (r Record) GoString() string { return r.String() }

// LogValue returns the same as String.
func (r Record) LogValue() slog.Value { return slog.StringValue(r.String()) }

// String returns the codec and the size of the answer, without its body.
func (a Answer) String() string {
	return fmt.Sprintf("answer (%s, %d bytes, kept %v)", a.Codec, max(a.Size, int64(len(a.Body))), a.Kept)
}

// GoString returns the same as String.
func (a Answer) GoString() string { return a.String() }

// LogValue returns the same as String.
func (a Answer) LogValue() slog.Value { return slog.StringValue(a.String()) }

// String returns the namespace, and whether a secret is set, without the secret.
func (o Options) String() string {
	return fmt.Sprintf("options (namespace %q, secret set %v)", o.Namespace, len(o.Secret) > 0)
}

// GoString returns the same as String.
func (o Options) GoString() string { return o.String() }

// LogValue returns the same as String.
func (o Options) LogValue() slog.Value { return slog.StringValue(o.String()) }

func name[E ~uint8](e E, names ...string) string {
	if int(e) < len(names) {
		return names[e]
	}
	return fmt.Sprintf("unknown (%d)", uint8(e))
}

// String returns the constant's name in words.
func (d Duplicate) String() string { return name(d, "default", "replay", "reject", "succeed") }

// String returns the constant's name in words.
func (o OnDoubt) String() string { return name(o, "default", "refuse", "reexecute") }

// String returns the constant's name in words.
func (o Outcome) String() string { return name(o, "none", "done", "not done", "failed", "doubtful") }

// String returns the constant's name in words.
func (s Status) String() string {
	return name(s, "none", "won", "in progress", "finished", "in doubt", "mismatch", "principal changed", "fence changed", "not issued",
		"already issued", "owner spent")
}
