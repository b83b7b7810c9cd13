package token

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"slices"
	"time"

	"github.com/retrysafe/retrysafe"
)

// The errors of [Issuer.Issue], wrapped in a [*retrysafe.Error]; test with errors.Is.
var (
	// ErrTooMany comes with Error.RetryAfter.
	ErrTooMany = errors.New("too many tokens were asked for; ask again later")
	// ErrAnonymous means that the tenant is empty and Options.Anonymous is negative.
	ErrAnonymous = errors.New("callers that are not known get no tokens here; name a tenant")
)

// Issuer issues tokens and recognizes them. It is safe for concurrent use.
type Issuer struct {
	engine *retrysafe.Engine
	o      Options
	limits *limits
}

// NewIssuer returns an issuer of tokens that are redeemed on the store of e. It panics on options
// that [Options.Validate] refuses. If the store cannot issue keys, the first Issue, or the first
// use of a stateless token, returns an error that wraps errors.ErrUnsupported.
func NewIssuer(e *retrysafe.Engine, o *Options) *Issuer {
	if e == nil {
		panic("token: NewIssuer needs an engine; retrysafe.New makes one")
	}
	if err := o.Validate(); err != nil {
		panic(err)
	}
	i := &Issuer{engine: e.Layer(layer)}
	if o != nil {
		i.o = *o
	}
	i.o.setDefaults()
	i.o.StatelessSecret = slices.Clone(i.o.StatelessSecret)
	i.limits = newLimits(&i.o)
	return i
}

// Tokens have their own layer and operation, so that the code that issues one need not know where
// it is used.
const (
	layer     = "token"
	operation = "token"
)

// issueTime is how long the store may take to issue a token, over all tries.
const issueTime = 5 * time.Second

// Issue makes a token for a tenant, as URL-safe text: 32 characters with 192 random bits, or 76
// with 128 if it is stateless. Anyone who has the text and is the tenant can use it: keep it out of
// logs.
//
// Errors: [ErrTooMany], [ErrAnonymous], retrysafe.ErrUnavailable, retrysafe.ErrClosed, and one that
// wraps errors.ErrUnsupported.
func (i *Issuer) Issue(ctx context.Context, tenant string) (string, error) {
	return i.issueFor(ctx, tenant, tenant)
}

// issueFor issues a token and counts it for an account.
func (i *Issuer) issueFor(ctx context.Context, tenant, account string) (string, error) {
	if tenant == "" && i.o.Anonymous < 0 {
		return "", &retrysafe.Error{Op: operation, Err: ErrAnonymous}
	}
	if wait, ok := i.limits.admit(account, tenant == "", time.Now()); !ok {
		return "", &retrysafe.Error{Op: operation, Err: ErrTooMany, RetryAfter: wait}
	}
	ctx, cancel := context.WithTimeout(ctx, issueTime)
	defer cancel()
	if len(i.o.StatelessSecret) > 0 {
		now, err := i.engine.StoreTime(ctx)
		if err != nil {
			return "", err
		}
		return i.signToken(tenant, now.Add(i.o.Life)), nil
	}
	for try := 1; ; try++ {
		token := randomToken()
		err := i.engine.Issue(ctx, i.Key(tenant, token), i.o.Life)
		switch {
		case err == nil:
			return token, nil
		case try == 3 || ctx.Err() != nil || !errors.Is(err, retrysafe.ErrUnavailable):
			return "", err
		}
		// Try another token: a copy of this request that arrives late must not issue a token that a
		// caller has, and has used.
	}
}

func randomToken() string {
	var b [24]byte
	_, _ = rand.Read(b[:]) // never fails: it would end the process
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// Key returns the key of a tenant's token on [Issuer.Engine].
func (*Issuer) Key(tenant, token string) retrysafe.Key {
	return retrysafe.Key{Tenant: retrysafe.KeyPart(tenant), Operation: operation, ID: retrysafe.KeyPart(token)}
}

// Engine returns the engine on which tokens live, with the layer "token". Use it for Lookup and
// Resolve.
func (i *Issuer) Engine() *retrysafe.Engine { return i.engine }

// Redeem returns what a call requires of the token. It refuses nothing: the store does, in the same
// way for a token that is unknown, forged, expired or another tenant's. [Do], [Run] and httpidem
// call it themselves.
func (i *Issuer) Redeem(tenant, token string) retrysafe.CallOption {
	var signed time.Time
	if len(i.o.StatelessSecret) > 0 {
		signed = i.signedUntil(tenant, token)
	}
	return retrysafe.MustBeIssuedFor(i.o.Life, signed)
}
