package sqlkit_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/sqlkit"
)

func TestRetry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		final, tries := errors.New("final"), 0
		for _, want := range []error{nil, final} {
			tries = 0
			err := sqlkit.Retry(ctx, func() error {
				if tries++; tries < 4 {
					return postgresError("40001")
				}
				return want
			})
			assert.Equal(t, err, want, "the error of the last try")
			assert.Equal(t, tries, 4, "tries")
		}
		began := time.Now()
		err := sqlkit.Retry(ctx, func() error { tries++; return postgresError("40001") })
		assert.Equal(t, err, error(postgresError("40001")), "the error at the end of the context")
		assert.True(t, time.Since(began) < time.Second && tries > 50, "tries until the context ends, with pauses: %d", tries)
	})
}
