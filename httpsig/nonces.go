package httpsig

import (
	"context"
	"errors"
	"time"

	"github.com/retrysafe/retrysafe"
)

// Nonces remembers which nonces were used. It is asked for verified requests only.
type Nonces interface {
	// Claim takes a nonce of a key id, for life at least. Of any number of callers at once, in all
	// processes, one gets nil and the others [ErrNonceUsed]. Any other error says that nobody
	// knows, and the request is refused. It may be called concurrently.
	Claim(ctx context.Context, keyid, nonce string, life time.Duration) error
}

// ErrNonceUsed says that a request with this nonce was accepted before.
var ErrNonceUsed = errors.New("httpsig: this nonce was used before")

// NoncesOn keeps nonces on the store of e, in its layer "sig", with one call of the store each: a
// nonce is a key that is issued and never used, so that the store forgets it when its time has
// passed. The store must be one that issues keys (retrysafe.Issuer); all of this project's do. All
// processes that accept the same keys need the same store and namespace.
func NoncesOn(e *retrysafe.Engine) Nonces {
	if e == nil {
		panic("httpsig: NoncesOn needs an engine; retrysafe.New makes one")
	}
	return engineNonces{e.Layer("sig")}
}

type engineNonces struct{ engine *retrysafe.Engine }

// Claim implements [Nonces]. A claim whose reply was lost may have been made: then the nonce is
// used, although the request was refused with 503, and the client, whose next try has another one,
// does not mind.
func (n engineNonces) Claim(ctx context.Context, keyid, nonce string, life time.Duration) error {
	err := n.engine.Issue(ctx, retrysafe.Key{
		Tenant: retrysafe.KeyPart(keyid), Operation: "nonce", ID: retrysafe.KeyPart(nonce),
	}, life)
	if errors.Is(err, retrysafe.ErrNotIssued) {
		return ErrNonceUsed
	}
	return err
}
