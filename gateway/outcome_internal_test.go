package gateway

import (
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
)

// TestClassOfErrors tests that a log shows the cause of an error in plain words, or its type,
// however it is wrapped, and never its text.
func TestClassOfErrors(t *testing.T) {
	t.Parallel()
	secret := errors.New("the key 4711")
	for _, c := range []struct {
		err  error
		want string
	}{
		{errors.Join(fmt.Errorf("read: %w", io.ErrUnexpectedEOF), secret), "connection closed"},
		{errors.Join(secret, retrysafe.ErrLeaseLost), "the lease could not be extended"},
		{fmt.Errorf("one: %w", errors.Join(secret, secret)), "*errors.errorString"},
		{secret, "*errors.errorString"},
	} {
		assert.Equal(t, errorClass(c.err), c.want, "class of %T", c.err)
	}
}

// TestUnknownRefusal: an error that the gateway does not know says nothing about what was done, and
// so does its answer.
func TestUnknownRefusal(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]string{errors.New("of a later version"): "outcome-unknown", retrysafe.ErrUnavailable: "store-unavailable"} {
		w := httptest.NewRecorder()
		new(Gateway).writeRefusal(w, httptest.NewRequestWithContext(t.Context(), "POST", "/orders", nil), err)
		assert.Contains(t, w.Body.String(), `"code":"`+want+`"`, "the answer to %v", err)
	}
}
