package token

import (
	"context"

	"github.com/retrysafe/retrysafe"
)

// Do is [retrysafe.Do] with a tenant's token as its key: fn runs once, and every duplicate gets the
// first answer, for the retention and at least for the token's life plus a minute. For a token that
// is unknown, expired or another tenant's it returns retrysafe.ErrNotIssued. An error that says
// that nothing was done (retrysafe.NothingDone) leaves the token unused.
func Do[T any](ctx context.Context, i *Issuer, tenant, token string, fn func(context.Context) (T, error), opts ...retrysafe.CallOption) (retrysafe.Result[T], error) {
	all := append(make([]retrysafe.CallOption, 0, len(opts)+1), opts...)
	return retrysafe.Do(ctx, i.engine, i.Key(tenant, token), fn, append(all, i.Redeem(tenant, token))...)
}

// Run is Do for work without an answer.
func Run(ctx context.Context, i *Issuer, tenant, token string, fn func(context.Context) error, opts ...retrysafe.CallOption) (replayed bool, err error) {
	res, err := Do(ctx, i, tenant, token, func(ctx context.Context) (struct{}, error) { return struct{}{}, fn(ctx) }, opts...)
	return res.Replayed, err
}

// Take spends a token and runs nothing: the classic check-and-delete, in one step. If it returns
// nil, this caller, and no other, may do the work now. Later callers get retrysafe.ErrDuplicate.
//
// It only guarantees at most once. If the work fails or the process dies after Take, the token is
// spent and the work is lost, and a duplicate gets an error that says that the work was done,
// although it was not. Use [Do], which knows the outcome of the work, unless losing the work does
// no harm.
func (i *Issuer) Take(ctx context.Context, tenant, token string) error {
	_, err := Run(ctx, i, tenant, token, func(context.Context) error { return nil },
		retrysafe.WithPolicy(retrysafe.Policy{Duplicate: retrysafe.Reject}))
	return err
}
