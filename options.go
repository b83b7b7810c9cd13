package retrysafe

import (
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// Options configure an [Engine]; nil and every zero field are fine.
type Options struct {
	// Namespace is part of every key: two applications on one store do not meet, and the processes
	// of one have the same. It is required on stores that others may share ([Sharer]: Redis,
	// PostgreSQL, MySQL); in memory and on SQLite the default is "app". Another namespace is
	// another key space: retries that meet it run again.
	Namespace string
	// Policy is what calls and operations inherit.
	Policy Policy
	// Secret keys the digests of credentials and the hashes of keys that people see. It is the same
	// on all processes of one store, at least 16 bytes. Without one they are plain SHA-256, which
	// can be guessed for short keys; the engine warns of that once.
	Secret []byte
	// Codec turns answers into bytes; default [JSON].
	Codec Codec
	// Trace is told of calls, for logs, metrics and spans.
	Trace *Trace
	// Sweep is how often expired records are removed, where the store can; default 1 minute,
	// negative never.
	Sweep time.Duration
	// Logger gets the engine's few warnings; default slog.Default().
	Logger *slog.Logger
}

// Validate says what is wrong with o; [New] panics on what it refuses.
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
	if o.Codec != nil && (o.Codec.Name() == "" || len(o.Codec.Name()) > 64) {
		errs = append(errs, errors.New("retrysafe: options: Codec.Name must have 1 to 64 bytes, since it is kept with each answer"))
	}
	return errors.Join(append(errs, o.Policy.Validate())...)
}
