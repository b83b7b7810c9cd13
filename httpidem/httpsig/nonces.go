package httpsig

import (
	"context"
	"errors"
	"time"

	"github.com/retrysafe/retrysafe"
)

// Nonces records which nonces were used. It is called for verified requests only.
type Nonces interface {
	// Claim claims a nonce of a key id, for life at least. Of any number of concurrent callers, in
	// all processes, one gets nil and the others [ErrNonceUsed]. Any other error means that the
	// result is unknown, and the request is refused. Claim must be safe for concurrent use.
	Claim(ctx context.Context, keyid, nonce string, life time.Duration) error
}

// ErrNonceUsed means that a request with this nonce was accepted before.
var ErrNonceUsed = errors.New("httpsig: this nonce was used before")

// NoncesOn returns nonces that are kept in the store of e, in its layer "sig". Each claim is one
// call of the store: a nonce is a key that is issued and never used, so the store forgets it after
// its time. The store must be able to issue keys (storeapi.Issuer), as all stores of this project
// are. All processes that accept the same keys need the same store and namespace.
func NoncesOn(e *retrysafe.Engine) Nonces {
	if e == nil {
		panic("httpsig: NoncesOn needs an engine; retrysafe.New makes one")
	}
	return engineNonces{e.Layer("sig")}
}

type engineNonces struct{ engine *retrysafe.Engine }

// Claim implements [Nonces]. A claim whose reply was lost may have been made. The nonce is then
// used although the request was refused with 503. That does no harm: the client's next try has
// another nonce.
func (n engineNonces) Claim(ctx context.Context, keyid, nonce string, life time.Duration) error {
	err := n.engine.Issue(ctx, retrysafe.Key{
		Tenant: retrysafe.KeyPart(keyid), Operation: "nonce", ID: retrysafe.KeyPart(nonce),
	}, life)
	if errors.Is(err, retrysafe.ErrNotIssued) {
		return ErrNonceUsed
	}
	return err
}
