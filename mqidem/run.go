package mqidem

// run is what Consume tells a handler of this package, and hears from it.
type run struct{}
