package retrysafe_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// Two processes on one store share the limits of a tenant. A new key over them is refused before
// anything runs. A duplicate is answered.
func ExampleLimits() {
	ctx := context.Background()
	store := memstore.New(nil)
	policy := retrysafe.Policy{Retention: 24 * time.Hour, Limits: retrysafe.Limits{Live: 2, PerSecond: 50, Burst: 100, Bytes: 64 << 20}}
	one := retrysafe.New(store, &retrysafe.Options{Policy: policy, Secret: []byte("from your configuration")})
	defer one.Shutdown(ctx)
	two := retrysafe.New(store, &retrysafe.Options{Policy: policy, Secret: []byte("from your configuration")})
	defer two.Shutdown(ctx)

	call := func(e *retrysafe.Engine, tenant, id string) {
		key := retrysafe.Key{Tenant: tenant, Operation: "charge", ID: id}
		_, err := retrysafe.Run(ctx, e, key, func(context.Context) error { return nil })
		after, _ := retrysafe.Retryable(err)
		fmt.Println(tenant, id, errors.Is(err, retrysafe.ErrTooManyKeys), after)
	}
	call(one, "ann", "a")
	call(two, "ann", "b")
	call(one, "ann", "c")
	call(two, "ann", "a")
	call(two, "bob", "c")
	// Output:
	// ann a false 0s
	// ann b false 0s
	// ann c true 1m0s
	// ann a false 0s
	// bob c false 0s
}
