package storeapi

// OnDoubt is the policy for work that may have taken effect and whose outcome is unknown.
type OnDoubt uint8

// The policies for an outcome in doubt.
const (
	// Refuse starts the work at most once: calls for a key in doubt get [ErrInDoubt] until it is
	// resolved. It is the default.
	Refuse OnDoubt = iota + 1
	// Reexecute starts the work again, so it runs at least once.
	Reexecute
)
