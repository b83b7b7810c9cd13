package admin_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/admin"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// An operator lists what is in doubt, finds out that nothing was done, and says so. The next call
// with the key runs.
func ExampleRecords() {
	ctx := context.Background()
	quiet := slog.New(slog.DiscardHandler)
	store := memstore.New(nil)
	engine := retrysafe.New(store, &retrysafe.Options{Namespace: "shop", Logger: quiet})
	defer engine.Shutdown(ctx)
	key := retrysafe.Key{Tenant: "ann", Operation: "charge", ID: "order-7"}
	lost := errors.New("connection reset")
	_, err := retrysafe.Run(ctx, engine, key, func(context.Context) error { return lost })
	fmt.Println("in doubt:", errors.Is(err, retrysafe.ErrInDoubt))

	records, err := admin.NewRecords(store, &admin.RecordsOptions{Logger: quiet})
	if err != nil {
		fmt.Println(err)
		return
	}
	err = records.Each(ctx, storeapi.ListRequest{Namespace: "shop", InDoubt: true}, func(rec *retrysafe.Record) bool {
		fmt.Println(rec.Key.Operation, admin.StateOf(rec))
		err := records.Resolve(ctx, rec.Key, retrysafe.Resolution{Outcome: retrysafe.NotDone, Fence: rec.Fence, By: "vera"})
		fmt.Println("resolved:", err)
		return true
	}, nil)
	fmt.Println(err)

	replayed, err := retrysafe.Run(ctx, engine, key, func(context.Context) error { return nil })
	fmt.Println("replayed:", replayed, err)
	// Output:
	// in doubt: true
	// charge in-doubt
	// resolved: <nil>
	// <nil>
	// replayed: false <nil>
}
