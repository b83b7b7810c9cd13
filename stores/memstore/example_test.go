package memstore_test

import (
	"context"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
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

// What a store does for one key: the first caller acquires it, others find it in progress, and
// after Complete everyone gets the answer.
func ExampleStore() {
	ctx := context.Background()
	var store storeapi.Store = memstore.New(nil)
	key := storeapi.StoreKey{Namespace: "shop", Layer: "fn", Key: storeapi.Key{Tenant: "ann", Operation: "charge", ID: "order-7"}}
	acquire := func(owner byte) storeapi.Acquired {
		now := time.Now()
		got, err := store.Acquire(ctx, storeapi.AcquireRequest{
			Key: key, Owner: storeapi.Owner{owner}, OnDoubt: storeapi.Refuse, Lease: time.Minute, Retention: time.Hour,
			NotAfter: now.Add(time.Minute),
		})
		if err != nil {
			fmt.Println(err)
		}
		return got
	}

	first := acquire(1)
	fmt.Println(first.Status)
	fmt.Println(acquire(2).Status)
	_, err := store.Complete(ctx, storeapi.CompleteRequest{
		Key: key, Owner: storeapi.Owner{1}, Fence: first.Record.Fence, State: storeapi.StateCompleted, Retention: time.Hour,
		Answer: storeapi.Answer{Codec: "raw", Body: []byte("receipt 1"), Kept: true, Size: 9},
	})
	fmt.Println(err)
	last := acquire(3)
	fmt.Println(last.Status, string(last.Record.Answer.Body))
	// Output:
	// acquired
	// in progress
	// <nil>
	// finished receipt 1
}
