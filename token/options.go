package token

import (
	"errors"
	"fmt"
	"net/http"
	"time"
)

// Options configure an [Issuer]; nil and every zero field are fine.
//
// Limits are those of one process, and they count what was issued, used or not: the process does
// not know who has used a token. Behind a balancer with four processes a tenant gets up to four
// times as many.
type Options struct {
	// Life is how long after its issue a token may be used first, by the store's clock; default 5
	// minutes, 1 s to 30 days.
	Life time.Duration
	// Rate is how many tokens a tenant gets in any minute; default 60, negative: no limit.
	Rate int
	// Anonymous is how many tokens the callers with an empty tenant get in any minute, all of them
	// together, or each Account; default that of Rate, negative: none, 403 tenant-missing.
	Anonymous int
	// Outstanding is how many tokens of one tenant may be within their Life (at least within a
	// minute); default 1000, negative: no limit.
	Outstanding int
	// Total is Outstanding for all tenants together; default 100000. It has no end, since it bounds
	// what a process remembers.
	Total int
	// Tenant names the caller of [Issuer.ServeHTTP] as it is named where the token is redeemed, for
	// example httpidem.Global or the Tenant of httpidem.Options. Without it, and where it returns
	// an error, ServeHTTP answers 403 tenant-missing.
	Tenant func(*http.Request) (string, error)
	// Account names whom the limits count for [Issuer.ServeHTTP]; default the tenant. It is for
	// tenants that nobody has verified: a stranger who only says that he is somebody must not use
	// up the tokens of that one. See httpidem.Credentials.Account.
	Account func(*http.Request) string
	// Stateless is a secret of at least 32 random bytes. With it nothing is stored before the first
	// use of a token, which carries its time and a signature (HMAC-SHA-256); whoever redeems it
	// needs an issuer with the same secret. Under another secret tokens that were used are still
	// answered, and others are refused. The store's clock must not be set back by more than the
	// retention.
	Stateless []byte
}

// Validate says what is wrong with o; [NewIssuer] panics on what it refuses.
func (o *Options) Validate() error {
	if o == nil {
		return nil
	}
	var errs []error
	if o.Life != 0 && (o.Life < time.Second || o.Life > 30*24*time.Hour) {
		errs = append(errs, fmt.Errorf("token: Life is %v; use 1s to 720h, or zero for 5m", o.Life))
	}
	if o.Total < 0 {
		errs = append(errs, fmt.Errorf("token: Total is %d; use a positive number, or zero for 100000", o.Total))
	}
	if n := len(o.Stateless); n > 0 && n < 32 {
		errs = append(errs, fmt.Errorf("token: Stateless has %d bytes; use at least 32 random ones, the same on all processes", n))
	}
	return errors.Join(errs...)
}

// fill sets the defaults.
func (o *Options) fill() {
	if o.Life == 0 {
		o.Life = 5 * time.Minute
	}
	if o.Rate == 0 {
		o.Rate = 60
	}
	if o.Anonymous == 0 {
		o.Anonymous = max(o.Rate, 0) // zero: no limit either
	}
	if o.Outstanding == 0 {
		o.Outstanding = 1000
	}
	if o.Total == 0 {
		o.Total = 100_000
	}
}
