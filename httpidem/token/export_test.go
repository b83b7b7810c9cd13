package token

import "time"

// SignedUntil returns until when the signature of a tenant's token proves that it was issued.
func (i *Issuer) SignedUntil(tenant, token string) time.Time { return i.signedUntil(tenant, token) }
