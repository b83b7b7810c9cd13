package classic

import (
	"context"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/redisclient"
)

// Deletion is a token that exists until it is used: Issue writes token → tenant, and Take compares
// and deletes in one step. Two commands, GET and then DEL, would let through every caller that
// reads before the first one deletes.
//
// What it does not protect against:
//   - The work fails after Take, and the answer that says so is lost: the retry is refused as a
//     duplicate although nothing has happened.
//   - The reply to Take is lost: the token is spent, but no caller has done the work.
//   - The process dies after Take: the work is lost, and nothing reports it.
//   - A duplicate of work that succeeded is refused like any other, and does not get the first
//     answer.
//   - A token that was used, has expired, was never issued or is another tenant's gets the same
//     error: nothing is left to tell them apart.
//
// It is safe for concurrent use.
type Deletion struct{ scriptRunner }

// NewDeletion returns a Deletion on the client's server. It panics on options that
// [Options.Validate] refuses.
func NewDeletion(c redisclient.Client, o *Options) *Deletion {
	return &Deletion{newScriptRunner(c, o, "deletion", 5*time.Minute)}
}

var (
	// The key contains the token, and the value is its tenant.
	deletionIssue = redisclient.NewScript("deletion-issue", `
if redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2], 'NX') then return 1 end
return 0`)
	deletionTake = redisclient.NewScript("deletion-take", `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])`)
)

// Issue makes a token for a tenant. After an error the server may have a token that no caller has;
// it expires after its life.
func (d *Deletion) Issue(ctx context.Context, tenant string) (token string, err error) {
	return d.issueToken(ctx, "", deletionIssue, tenant)
}

// Take spends a token. If it returns nil, this caller, and no other, may do the work now.
// retrysafe.ErrNotIssued means that the token was used, has expired, or is not this tenant's. After
// any other error it is unknown whether the token was spent.
func (d *Deletion) Take(ctx context.Context, tenant, token string) error {
	name, err := d.keyName("", token)
	if err != nil {
		return err
	}
	n, err := d.runScript(ctx, deletionTake, name, tenant)
	if err == nil && n != 1 {
		err = &retrysafe.Error{Op: "token", Err: retrysafe.ErrNotIssued}
	}
	return err
}

// Run deletes first and then works: it calls Take, and work if Take succeeds. The work starts at
// most once, whatever its outcome: after a failure or the death of the process nothing is left for
// a retry to continue from. Run returns an error of work unchanged.
func (d *Deletion) Run(ctx context.Context, tenant, token string, work func(context.Context) error) error {
	if err := d.Take(ctx, tenant, token); err != nil {
		return err
	}
	return work(ctx)
}
