package memstore_test

import (
	"context"
	"fmt"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/memstore"
)

// The second call with a key gets the answer of the first, and its work does not run.
func ExampleNew() {
	ctx := context.Background()
	engine := retrysafe.New(memstore.New(nil), &retrysafe.Options{Namespace: "shop"})
	defer engine.Shutdown(ctx)

	charges := 0
	charge := func(context.Context) (int, error) {
		charges++
		return charges, nil
	}
	key := retrysafe.Key{Tenant: "ann", Operation: "charge", ID: "order-7"}
	for range 2 {
		got, err := retrysafe.Do(ctx, engine, key, charge)
		fmt.Println("charge", got.Value, "replayed:", got.Replayed, err)
	}
	// Output:
	// charge 1 replayed: false <nil>
	// charge 1 replayed: true <nil>
}
