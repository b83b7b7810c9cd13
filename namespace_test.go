package retrysafe_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/nearstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// everybodys is a store that other services may share.
type everybodys struct{ *memstore.Store }

func (everybodys) Shared() bool { return true }

// TestNamespaceOfASharedStore: New requires a namespace if others may keep their records in the
// same place, also through a wrapper, and only then.
func TestNamespaceOfASharedStore(t *testing.T) {
	t.Parallel()
	refused := func(s storeapi.Store, o *retrysafe.Options) (said string) {
		defer func() {
			if r := recover(); r != nil {
				said = fmt.Sprint(r)
			}
		}()
		return fmt.Sprint(retrysafe.New(s, o).Shutdown(context.Background()))
	}
	shared := everybodys{memstore.New(nil)}
	near := nearstore.New(shared, nil)
	for _, s := range []storeapi.Store{shared, near} {
		assert.Contains(t, refused(s, nil), "Namespace is not set", "without options")
		assert.Contains(t, refused(s, &retrysafe.Options{Sweep: -1}), `for example "shop"`, "without a namespace")
		assert.Equal(t, refused(s, &retrysafe.Options{Namespace: "shop", Sweep: -1}), "<nil>", "with one")
	}
	assert.Equal(t, refused(memstore.New(nil), nil), "<nil>", "memory")
}
