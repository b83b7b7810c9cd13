package drivers

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/retrysafe/retrysafe/adapters/amqpidem"
	"github.com/retrysafe/retrysafe/internal/assert"
)

// TestNotOpened: an error of a broker about the queue names the flag, and has no advice about Go.
// Any other error is as it was.
func TestNotOpened(t *testing.T) {
	t.Parallel()
	for flag, errs := range map[string][]error{
		"--queue":  {amqpidem.ErrMissing, jetstream.ErrStreamNotFound},
		"--broker": {amqpidem.ErrDenied},
	} {
		for _, is := range errs {
			text := notOpened(fmt.Errorf("make it with Create, or leave out Options.Passive: %w", is), "orders/stock").Error()
			assert.True(t, strings.Contains(text, "check "+flag) && strings.Contains(text, "orders/stock") && !strings.Contains(text, "Options"), "of %q: %s", is, text)
		}
	}
	other := errors.New("make it with Declare, said the broker")
	assert.Equal(t, notOpened(other, "q").Error(), other.Error(), "another error")
}
