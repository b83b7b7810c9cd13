package mqidem_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/mqidem"
)

// picky is a type whose decoder shows what it has refused.
type picky struct{}

var errPicky = errors.New("refused: secret")

func (*picky) UnmarshalJSON([]byte) error { return errPicky }

// TestJSONReason: the dead letter of a body that JSON cannot decode says where the body is wrong,
// and shows nothing of it. The decoder's error is wrapped.
func TestJSONReason(t *testing.T) {
	t.Parallel()
	type order struct {
		Item  string
		Count int
		Picky *picky
	}
	for name, one := range map[string]struct{ body, want string }{
		"no JSON":      {`{"item": secret}`, "a body of 16 bytes is no JSON of mqidem_test.order: byte 10 is no JSON, or the text ends there too early"},
		"cut off":      {`{"item": "se`, "a body of 12 bytes is no JSON of mqidem_test.order: byte 12 is no JSON, or the text ends there too early"},
		"another kind": {`{"count": "secret"}`, `a body of 19 bytes is no JSON of mqidem_test.order: the value before byte 18 is of the kind "string" and has to be of the Go type int`},
		"a number":     {`{"count": 7.75}`, `a body of 15 bytes is no JSON of mqidem_test.order: the value before byte 14 is of the kind "number" and has to be of the Go type int`},
		"its own":      {`{"picky": "secret"}`, "a body of 19 bytes is no JSON of mqidem_test.order: its decoder returned an error of the type *errors.errorString"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				w.publish(message("1", one.body))
				stop := w.consume(mqidem.Once(w.engine, "stock", mqidem.JSON(func(context.Context, order, *mqidem.Message) error { return nil })), mqidem.Options{})
				w.passTime(time.Second)
				assert.NoError(t, stop(), "consume")
				dead := w.deadLetters()
				assert.Equal(t, len(dead), 1, "dead letters")
				assert.Equal(t, dead[0].Reason.Why+": "+dead[0].Reason.Error, "poison: mqidem: "+one.want, "reason")
				w.mu.Lock()
				defer w.mu.Unlock()
				var syntax *json.SyntaxError
				var kind *json.UnmarshalTypeError
				err := w.outcomes[0].Err
				assert.True(t, errors.As(err, &syntax) || errors.As(err, &kind) || errors.Is(err, errPicky), "the decoder's error: %v", err)
			})
		})
	}
}
