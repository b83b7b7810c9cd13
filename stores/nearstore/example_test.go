package nearstore_test

import (
	"context"
	"fmt"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/nearstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/stores/storetest"
)

// Of a key with many duplicates the first ones ask the store, and the others get the copy.
func ExampleNew() {
	ctx := context.Background()
	none := func(string, int) storetest.Fault { return 0 }
	inner := storetest.NewFaulty(memstore.New(nil), none) // counts the calls
	var store storeapi.Store = nearstore.New(inner, nil)
	engine := retrysafe.New(store, &retrysafe.Options{Namespace: "shop", Sweep: -1})
	defer engine.Shutdown(ctx)

	key := retrysafe.Key{Tenant: "ann", Operation: "charge", ID: "order-7"}
	for range 100 {
		if _, err := retrysafe.Run(ctx, engine, key, func(context.Context) error { return nil }); err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println("claims that reached the store:", inner.Calls("acquire"))
	// Output: claims that reached the store: 3
}
