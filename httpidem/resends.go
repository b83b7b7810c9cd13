package httpidem

import "context"

type resendsKey struct{}

// withResends returns the context of a try before which n others were sent. The first try has the
// caller's context itself.
func withResends(ctx context.Context, n int) context.Context {
	if n == 0 {
		return ctx
	}
	return context.WithValue(ctx, resendsKey{}, n)
}

// Resends returns how many tries of this request a [Transport] has made before the one that ctx
// belongs to, for its Base: zero for the first one. Conventions for traces call it
// http.request.resend_count.
func Resends(ctx context.Context) int {
	n, _ := ctx.Value(resendsKey{}).(int)
	return n
}
