package mqidem

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/retrysafe/retrysafe"
)

// Handler does the work of a message. nil means that the work is done. After an error the work is
// tried again, unless retrysafe.NothingDone, InDoubt, Permanent or [Poison] say otherwise. A panic
// counts as an error. A handler must return when its context ends.
type Handler func(context.Context, *Message) error

// Poison marks err as final: the message can never be handled, because it cannot be decoded or
// breaks a rule that will not change. It becomes a dead letter at once. Poison(nil) is nil.
func Poison(err error) error { return retrysafe.Permanent(DeadPoison, err) }

// JSON returns a Handler that decodes the body and calls h. A body that is not JSON of a T is
// [Poison].
func JSON[T any](h func(context.Context, T, *Message) error) Handler {
	return func(ctx context.Context, m *Message) error {
		var v T
		if err := json.Unmarshal(m.Body, &v); err != nil {
			// The decoder's error may show parts of the body.
			return Poison(fmt.Errorf("mqidem: a body of %d bytes is no JSON of %T", len(m.Body), v))
		}
		return h(ctx, v, m)
	}
}

// errPanicked leaves out the value of a panic, which may show anything; only texts of the Go
// runtime are kept.
var errPanicked = errors.New("mqidem: the handler panicked")

// errExited means that the handler called runtime.Goexit, as t.FailNow does.
var errExited = errors.New("mqidem: the handler ended its goroutine")
