package classic

import (
	"context"
	"errors"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/redisclient"
)

// Count is a token with a counter: Issue writes 1, and Take adds one; the result 2 is the first
// use. INCR alone creates a missing key: the second use of a token that was never issued, or has
// expired, would also give 2 and pass. So EXISTS and INCR are one script.
//
// As long as the token lives, Count can tell a duplicate from an unknown token. Otherwise it
// protects no more than [Deletion]: a failure after Take, a lost reply and the death of the process
// spend the token, and a duplicate does not get the first answer.
//
// It is safe for concurrent use.
type Count struct{ scriptRunner }

// NewCount returns a Count on the client's server. It panics on options that [Options.Validate]
// refuses.
func NewCount(c redisclient.Client, o *Options) *Count {
	return &Count{newScriptRunner(c, o, "count", 5*time.Minute)}
}

// ErrTaken means that a token of [Count] was taken before.
var ErrTaken = errors.New("classic: the token was taken before, and it is unknown whether its work is done; look for what it made, and take a new token if there is nothing")

var (
	countIssue = redisclient.NewScript("count-issue", `
if redis.call('SET', KEYS[1], '1', 'PX', ARGV[1], 'NX') then return 1 end
return 0`)
	// INCR keeps the key's time to live.
	countTake = redisclient.NewScript("count-take", `
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
return redis.call('INCR', KEYS[1])`)
)

// Issue makes a token for a tenant. After an error the server may have a token that no caller has;
// it expires after its life.
func (c *Count) Issue(ctx context.Context, tenant string) (token string, err error) {
	return c.issueToken(ctx, tenant, countIssue)
}

// Take spends a token. If it returns nil, this caller, and no other, may do the work now.
// [ErrTaken] means that another call has taken the token, whatever the outcome of its work.
// retrysafe.ErrNotIssued means that the token is unknown, expired or another tenant's. After any
// other error it is unknown whether the token was spent.
func (c *Count) Take(ctx context.Context, tenant, token string) error {
	name, err := c.keyName(tenant, token)
	if err != nil {
		return err
	}
	n, err := c.runScript(ctx, countTake, name)
	switch {
	case err != nil || n == 2:
		return err
	case n == 0:
		return &retrysafe.Error{Op: "token", Err: retrysafe.ErrNotIssued}
	}
	return ErrTaken
}
