package token

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"
)

// Options configures an [Issuer]. A nil *Options and zero fields mean the defaults.
//
// The limits are those of one process. They count the tokens that were issued, used or not, because
// the process does not know which were used. With four processes behind a load balancer, a tenant
// gets up to four times as many.
type Options struct {
	// Life is how long after its issue a token can be used for the first time, by the store's
	// clock; default 5 minutes, 1 s to 30 days.
	Life time.Duration
	// Rate is how many tokens a tenant gets in any minute; default 60. A negative Rate means no
	// limit.
	Rate int
	// Anonymous is how many tokens the callers with an empty tenant get in any minute, all of them
	// together, or each Account. The default is Rate. A negative value means none: 403
	// tenant-missing.
	Anonymous int
	// Outstanding is how many tokens of one tenant may be within their Life (or within a minute, if
	// that is longer); default 1000. A negative value means no limit.
	Outstanding int
	// Total is Outstanding for all tenants together; default 100000. It cannot be unlimited, since
	// it limits the memory of a process. When it is reached, a tenant that has fewer tokens than
	// another one still gets some, at most Total within a Life, and the tenant that has most gets
	// none. Logger gets a warning.
	Total int
	// Tenant returns the caller of [Issuer.ServeHTTP]. It must be the tenant with which the token
	// is redeemed, for example from httpidem.Global or the Tenant of httpidem.Options. If it is nil
	// or returns an error, ServeHTTP answers 403 tenant-missing.
	Tenant func(*http.Request) (string, error)
	// Account returns the account that the limits count for [Issuer.ServeHTTP]; default the tenant.
	// Set it if tenants are not verified: a stranger who only claims a name must not use up the
	// tokens of its owner, and one who invents a tenant for each token is otherwise counted as a
	// new caller each time. See httpidem.Credentials.Account.
	Account func(*http.Request) string
	// Logger gets a warning when Total is reached, once a minute at most; default slog.Default().
	Logger *slog.Logger
	// StatelessSecret is a secret of at least 32 random bytes. With it, the server stores nothing
	// before the first use of a token. The token carries its time and a signature (HMAC-SHA-256),
	// and must be redeemed by an issuer with the same secret. After a change of the secret, tokens
	// that were used are still answered and others are refused. The store's clock must not be set
	// back by more than the retention.
	StatelessSecret []byte
}

// Validate returns an error if o is invalid; [NewIssuer] panics on what it refuses.
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
	if n := len(o.StatelessSecret); n > 0 && n < 32 {
		errs = append(errs, fmt.Errorf("token: StatelessSecret has %d bytes; use at least 32 random ones, the same on all processes", n))
	}
	return errors.Join(errs...)
}

// setDefaults sets the defaults.
func (o *Options) setDefaults() {
	if o.Life == 0 {
		o.Life = 5 * time.Minute
	}
	if o.Rate == 0 {
		o.Rate = 60
	}
	if o.Anonymous == 0 {
		o.Anonymous = max(o.Rate, 0) // zero also means no limit
	}
	if o.Outstanding == 0 {
		o.Outstanding = 1000
	}
	if o.Total == 0 {
		o.Total = 100_000
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
}
