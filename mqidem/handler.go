package mqidem

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

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
// [Poison]. The error says where the body is wrong and shows nothing of it; errors.As finds the
// decoder's own error, which may show parts of the body.
func JSON[T any](h func(context.Context, T, *Message) error) Handler {
	return func(ctx context.Context, m *Message) error {
		var v T
		if err := json.Unmarshal(m.Body, &v); err != nil {
			return Poison(&decodeError{fmt.Sprintf("mqidem: a body of %d bytes is no JSON of %T: %s", len(m.Body), v, decodeFault(err)), err})
		}
		return h(ctx, v, m)
	}
}

// decodeError has a text of its own, since the decoder's may show parts of the body.
type decodeError struct {
	text  string
	cause error
}

func (e *decodeError) Error() string { return e.text }
func (e *decodeError) Unwrap() error { return e.cause }

// decodeFault says where a body is not what its decoder needs, without a part of the body.
func decodeFault(err error) string {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return fmt.Sprintf("byte %d is no JSON, or the text ends there too early", syntax.Offset)
	case errors.As(err, &kind):
		is, _, _ := strings.Cut(kind.Value, " ") // a number is followed by its digits
		return fmt.Sprintf("the value before byte %d is of the kind %q and has to be of the Go type %v", kind.Offset, is, kind.Type)
	}
	return fmt.Sprintf("its decoder returned an error of the type %T", err)
}

// errPanicked leaves out the value of a panic, which may show anything; only texts of the Go
// runtime are kept.
var errPanicked = errors.New("mqidem: the handler panicked")

// errExited means that the handler called runtime.Goexit, as t.FailNow does.
var errExited = errors.New("mqidem: the handler ended its goroutine")
