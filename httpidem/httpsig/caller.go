package httpsig

import (
	"context"
	"errors"
	"net/http"
	"time"
)

// Caller is the signer of a request that was accepted.
type Caller struct {
	// KeyID is the id of the key.
	KeyID string
	// Principal is [Key].Principal, or else KeyID. It stays the same when keys change.
	Principal string
	// Created is when the signature was made, by the client's clock.
	Created time.Time
	// Covered are the components that the signature covers. Anyone may have written the rest of the
	// request.
	Covered []string
}

type callerKey struct{}

// CallerFrom returns the signer of the request that ctx belongs to. It returns false if no
// [Verifier] has accepted a signature of it.
func CallerFrom(ctx context.Context) (Caller, bool) {
	c, ok := ctx.Value(callerKey{}).(*Caller)
	if !ok {
		return Caller{}, false
	}
	return *c, true
}

var errUnsigned = errors.New("httpsig: no signature of this request was verified; put Verifier.Handler around the middleware that asks for the tenant")

// Tenant returns the principal of the caller, for Tenant of httpidem.Options. It returns an error
// if no [Verifier] has accepted the request.
func Tenant(r *http.Request) (string, error) {
	c, ok := CallerFrom(r.Context())
	if !ok {
		return "", errUnsigned
	}
	return c.Principal, nil
}
