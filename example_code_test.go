package retrysafe_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// A handler that calls the engine itself answers an error by its code.
func ExampleCodeOf() {
	e := retrysafe.New(memstore.New(nil), nil)
	defer e.Shutdown(context.Background()) //nolint:errcheck // the example ends here
	key := retrysafe.Key{Tenant: "acme", Operation: "charge", ID: "k1"}
	charge := func(context.Context) error { return errors.New("the bank did not answer") }
	for range 2 {
		_, err := retrysafe.Run(context.Background(), e, key, charge)
		code := retrysafe.CodeOf(err)
		fmt.Println(code.HTTPStatus(), code, code.Retryable())
	}
	fmt.Println(retrysafe.CodeTooManyKeys.HTTPStatus(), retrysafe.CodeTooManyKeys, retrysafe.CodeTooManyKeys.Retryable())
	// Output:
	// 409 outcome-unknown false
	// 409 outcome-unknown false
	// 429 too-many-keys true
}
