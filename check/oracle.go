package check

import "context"

// Oracle counts how often requests took effect.
type Oracle interface {
	// Count returns the number of effects so far. It only has to grow by one with each effect: only
	// differences are looked at. An error ends the examination.
	Count(ctx context.Context) (int64, error)
	// String says in a few words what is counted: "GET /orders, $.total".
	String() string
}
