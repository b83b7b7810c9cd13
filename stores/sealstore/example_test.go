package sealstore_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/sealstore"
)

// The store keeps cipher text. A forgotten tenant's answers cannot be opened any more, and its work
// does not run again.
func Example() {
	text, _ := sealstore.NewKeyFile("2026-11")
	ring, _ := sealstore.ParseRing(text) // a program uses ReadRing
	store := sealstore.New(memstore.New(nil), ring, nil)
	e := retrysafe.New(store, &retrysafe.Options{Namespace: "shop"})

	ctx := context.Background()
	charge := func() {
		res, err := retrysafe.Do(ctx, e, retrysafe.Key{Tenant: "ada", Operation: "charge", ID: "k1"}, func(context.Context) (string, error) {
			return "ch_1", nil
		})
		fmt.Println(res.Value, res.Replayed, errors.Is(err, retrysafe.ErrAnswerSealed))
	}
	charge()
	charge()
	_ = store.Forget(ctx, sealstore.Tenant{Namespace: "shop", Name: "ada"})
	charge()
	// Output:
	// ch_1 false false
	// ch_1 true false
	//  true true
}
