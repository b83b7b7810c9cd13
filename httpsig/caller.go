package httpsig

import (
	"context"
	"errors"
	"net/http"
	"time"
)

// Caller is who has signed a request that was accepted.
type Caller struct {
	// KeyID is the id of the key.
	KeyID string
	// Principal is [Key].Principal, or else KeyID: what stays the same when keys change.
	Principal string
	// Created is when the signature was made, by the client's clock.
	Created time.Time
	// Covered are the components that the signature covers; whatever else the request has may be
	// anybody's.
	Covered []string
}

type callerKey struct{}

// CallerFrom is who has signed the request that ctx belongs to; false: nobody that a [Verifier] has
// accepted.
func CallerFrom(ctx context.Context) (Caller, bool) {
	c, ok := ctx.Value(callerKey{}).(*Caller)
	if !ok {
		return Caller{}, false
	}
	return *c, true
}

// KeyID is the id of the key that the request of ctx is signed by; empty if it is not.
func KeyID(ctx context.Context) string {
	c, _ := CallerFrom(ctx)
	return c.KeyID
}

var errUnsigned = errors.New("httpsig: no signature of this request was verified; put Verifier.Handler around the middleware that asks for the tenant")

// Tenant is the principal of the caller, for Tenant of httpidem.Options. A request that no
// [Verifier] has accepted is an error.
func Tenant(r *http.Request) (string, error) {
	c, ok := CallerFrom(r.Context())
	if !ok {
		return "", errUnsigned
	}
	return c.Principal, nil
}
