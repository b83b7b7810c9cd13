package shardstore_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/shardstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// The rows of a request belong on the database that has the record of its key.
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
		home, err := store.Home(key)
		fmt.Println(id, "is at home in", home, err)
	}
	// Output:
	// order 1 is at home in eu-1 <nil>
	// order 5 is at home in eu-2 <nil>
	// order 1 is at home in eu-1 <nil>
}

// The application knows where a tenant's rows are.
func ExampleOptions() {
	ctx := context.Background()
	shards := map[string]storeapi.Store{"eu": memstore.New(nil), "us": memstore.New(nil)}
	store, err := shardstore.New(ctx, shards, &shardstore.Options{Home: func(key storeapi.StoreKey) string {
		if strings.HasPrefix(key.Tenant, "us-") {
			return "us"
		}
		return "eu"
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	home, err := store.Home(storeapi.StoreKey{Namespace: "shop", Layer: "tx", Key: storeapi.Key{Tenant: "us-ann", Operation: "pay", ID: "order 1"}})
	fmt.Println(home, err)
	// Output:
	// us <nil>
}

// The list grows without a wait: keys that were made before a moment stay where they are.
func ExampleChangeList() {
	ctx := context.Background()
	shards := map[string]storeapi.Store{"eu-1": memstore.New(nil), "eu-2": memstore.New(nil), "eu-3": memstore.New(nil)}
	before, after := []string{"eu-1", "eu-2"}, []string{"eu-1", "eu-2", "eu-3"}
	// The time of a UUIDv7 is its beginning. Later, when no older key has a record any more, Home
	// goes.
	const moment = "0197c3d2"
	o := &shardstore.Options{Home: func(key storeapi.StoreKey) string {
		if key.ID < moment {
			return shardstore.Pick(before, key)
		}
		return shardstore.Pick(after, key)
	}}
	fmt.Println(shardstore.ChangeList(ctx, shards, after, o))
	_, err := shardstore.New(ctx, shards, o)
	fmt.Println(err)
	// Output:
	// <nil>
	// <nil>
}
