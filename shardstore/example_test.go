package shardstore_test

import (
	"context"
	"fmt"

	"github.com/retrysafe/retrysafe/memstore"
	"github.com/retrysafe/retrysafe/shardstore"
	"github.com/retrysafe/retrysafe/storeapi"
)

// The business transaction belongs on the database that has the record of its key.
func ExampleStore_Home() {
	ctx := context.Background()
	// In a program these are sqlstore.Store values, each with its *sql.DB.
	store, err := shardstore.New(ctx, map[string]storeapi.Store{"eu-1": memstore.New(nil), "eu-2": memstore.New(nil)}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, id := range []string{"order 1", "order 5", "order 1"} {
		key := storeapi.StoreKey{Namespace: "shop", Layer: "tx", Key: storeapi.Key{Operation: "pay", ID: id}}
		home, err := store.Home(ctx, key)
		fmt.Println(id, "is at home in", home, err)
	}
	// Output:
	// order 1 is at home in eu-1 <nil>
	// order 5 is at home in eu-2 <nil>
	// order 1 is at home in eu-1 <nil>
}
