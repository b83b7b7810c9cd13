package retrysafe_test

import (
	"testing"

	"github.com/retrysafe/retrysafe/internal/answertest"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/nearstore"
	"github.com/retrysafe/retrysafe/stores/sealstore"
)

// TestGoValues: a duplicate gets the answer that the first caller got, whichever Go value it is.
func TestGoValues(t *testing.T) {
	t.Parallel()
	answertest.Run(t, memstore.New(nil))
}

// TestGoValuesThroughStores: the same through a store that encrypts, and one that keeps answers
// near.
func TestGoValuesThroughStores(t *testing.T) {
	t.Parallel()
	t.Run("sealed", func(t *testing.T) {
		t.Parallel()
		answertest.Run(t, sealstore.New(memstore.New(nil), sealstore.NewRing("a"), nil))
	})
	t.Run("near", func(t *testing.T) {
		t.Parallel()
		answertest.Run(t, nearstore.New(memstore.New(nil), nil))
	})
}
