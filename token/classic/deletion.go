package classic

import (
	"context"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/redisclient"
)

// Deletion is the token that is there until it is used: issuing one writes token → tenant, and
// using it compares and deletes in one step. Looking first and deleting then, in two commands, lets
// everybody through who looks before the first deletes.
//
// What it does not protect against:
//   - The work fails after Take, and the answer that says so is lost: the retry is refused as a
//     repeat although nothing has happened.
//   - The reply to Take is lost: the token is spent and nobody has worked.
//   - The process dies after Take: the work is lost, and nothing tells anybody.
//   - A repeat of work that succeeded is refused like any other, and not told the first answer.
//   - Used, expired, never issued and another tenant's are one answer: there is nothing left to
//     tell them apart.
//
// It is safe for concurrent use.
type Deletion struct{ keeper }

// NewDeletion makes and takes tokens on the client's server. It panics on options that
// [Options.Validate] refuses.
func NewDeletion(c redisclient.Client, o *Options) *Deletion {
	return &Deletion{newKeeper(c, o, "deletion", 5*time.Minute)}
}

var (
	// The token is in the key, its tenant is the value.
	deletionIssue = redisclient.NewScript("deletion-issue", `
if redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2], 'NX') then return 1 end
return 0`)
	deletionTake = redisclient.NewScript("deletion-take", `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])`)
)

// Issue makes a token for a tenant. After an error there may be one on the server that nobody has;
// it ends with its life.
func (d *Deletion) Issue(ctx context.Context, tenant string) (token string, err error) {
	return d.issue(ctx, "", deletionIssue, tenant)
}

// Take spends a token. nil says that the caller, and nobody else, may do the work now;
// retrysafe.ErrNotIssued that the token was used, has expired, or is not this tenant's. After any
// other error nobody knows: the token may be spent.
func (d *Deletion) Take(ctx context.Context, tenant, token string) error {
	name, err := d.name("", token)
	if err != nil {
		return err
	}
	n, err := d.eval(ctx, deletionTake, name, tenant)
	if err == nil && n != 1 {
		err = &retrysafe.Error{Op: "token", Err: retrysafe.ErrNotIssued}
	}
	return err
}

// Run is delete first, then work: Take, and work if that succeeds. The work starts at most once,
// whatever becomes of it: of a failure or the death of the process nothing is left that a retry
// could go by. An error of work is returned as it is.
func (d *Deletion) Run(ctx context.Context, tenant, token string, work func(context.Context) error) error {
	if err := d.Take(ctx, tenant, token); err != nil {
		return err
	}
	return work(ctx)
}
