package token

import (
	"context"

	"github.com/retrysafe/retrysafe"
)

// Do is [retrysafe.Do] with a tenant's token as its key: fn runs once, and every repeat gets the
// first answer, for the retention and at least for the token's life and a minute. A token that is
// unknown, expired or another tenant's is retrysafe.ErrNotIssued. An error that says that nothing
// was done (retrysafe.NothingDone) leaves the token as it was.
func Do[T any](ctx context.Context, i *Issuer, tenant, token string, fn func(context.Context) (T, error), opts ...retrysafe.CallOption) (retrysafe.Result[T], error) {
	call := new(retrysafe.Call)
	i.Redeem(tenant, token, call)
	all := append(make([]retrysafe.CallOption, 0, len(opts)+1), opts...)
	return retrysafe.Do(ctx, i.engine, i.Key(tenant, token), fn, append(all, call)...)
}

// Run is Do for work without an answer.
func Run(ctx context.Context, i *Issuer, tenant, token string, fn func(context.Context) error, opts ...retrysafe.CallOption) (replayed bool, err error) {
	res, err := Do(ctx, i, tenant, token, func(ctx context.Context) (struct{}, error) { return struct{}{}, fn(ctx) }, opts...)
	return res.Replayed, err
}

// Take spends a token and runs nothing: the check-and-delete of old, in one step. nil says that the
// caller, and nobody else, may do the work now; whoever comes later is told retrysafe.ErrDuplicate.
//
// That is at most once and no more. If the work fails or the process dies after Take, the token is
// spent and the work is lost, and a repeat is told "done before" of what was not done. Use [Do],
// which knows how the work ended, unless losing it does no harm.
func (i *Issuer) Take(ctx context.Context, tenant, token string) error {
	_, err := Run(ctx, i, tenant, token, func(context.Context) error { return nil },
		retrysafe.WithPolicy(retrysafe.Policy{Duplicate: retrysafe.Reject}))
	return err
}
