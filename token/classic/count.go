package classic

import (
	"context"
	"errors"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/redisclient"
)

// Count is the token that counts: issuing one writes 1, and using it adds one; the result 2 is the
// first use. INCR alone makes what is not there: the second use of a token that was never issued,
// or has expired, gives 2 as well and passes. So EXISTS and INCR are one script.
//
// A repeat is told from an unknown token as long as the token lives. For the rest it protects
// against no more than [Deletion]: a failure after Take, a lost reply and the death of the process
// spend the token, and nobody is told the first answer.
//
// It is safe for concurrent use.
type Count struct{ keeper }

// NewCount makes and takes tokens on the client's server. It panics on options that
// [Options.Validate] refuses.
func NewCount(c redisclient.Client, o *Options) *Count {
	return &Count{newKeeper(c, o, "count", 5*time.Minute)}
}

// ErrTaken says that a token of [Count] was taken before.
var ErrTaken = errors.New("classic: the token was taken before, and whether its work is done nobody knows; look for what it made, and take a new token if there is nothing")

var (
	countIssue = redisclient.NewScript("count-issue", `
if redis.call('SET', KEYS[1], '1', 'PX', ARGV[1], 'NX') then return 1 end
return 0`)
	// INCR keeps the time of the key.
	countTake = redisclient.NewScript("count-take", `
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
return redis.call('INCR', KEYS[1])`)
)

// Issue makes a token for a tenant. After an error there may be one on the server that nobody has;
// it ends with its life.
func (c *Count) Issue(ctx context.Context, tenant string) (token string, err error) {
	return c.issue(ctx, tenant, countIssue)
}

// Take spends a token. nil says that the caller, and nobody else, may do the work now; [ErrTaken]
// that somebody has taken it before, whatever became of the work; retrysafe.ErrNotIssued that it is
// unknown, expired or another tenant's. After any other error nobody knows: the token may be spent.
func (c *Count) Take(ctx context.Context, tenant, token string) error {
	name, err := c.name(tenant, token)
	if err != nil {
		return err
	}
	n, err := c.eval(ctx, countTake, name)
	switch {
	case err != nil || n == 2:
		return err
	case n == 0:
		return &retrysafe.Error{Op: "token", Err: retrysafe.ErrNotIssued}
	}
	return ErrTaken
}
