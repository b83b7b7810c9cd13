package classic

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/redisclient"
)

// Lock keeps two from working on one name at the same time: SET NX PX with an owner of its own
// before the work, and compare-and-delete after it, so that nobody gives back a lock that is
// somebody else's by now.
//
// What it does not protect against:
//   - A repeat that comes after the lock was given back runs the work again: a lock alone makes
//     nothing safe to repeat.
//   - Work that takes longer than [Options.Life]: the lock ends, another begins, and two work at
//     once. Run says so when it ends, which is too late; nothing renews the lock meanwhile, and no
//     fence lets a resource refuse the first.
//   - A primary that dies before its replica has the lock: two hold it.
//
// It is safe for concurrent use.
type Lock struct{ keeper }

// NewLock locks names on the client's server. It panics on options that [Options.Validate] refuses.
func NewLock(c redisclient.Client, o *Options) *Lock {
	return &Lock{newKeeper(c, o, "lock", 30*time.Second)}
}

var (
	// A try that is sent again has the lock already.
	lockTake = redisclient.NewScript("lock-take", `
if redis.call('GET', KEYS[1]) == ARGV[1] then return 1 end
if redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2], 'NX') then return 1 end
return 0`)
	lockGive = redisclient.NewScript("lock-give", `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])`)
)

// giveTime is how long giving a lock back may take; what is not given back ends by itself.
const giveTime = 5 * time.Second

// Run works under the lock of a name. retrysafe.ErrInProgress: somebody else has it, and nothing
// was run. An error of work is returned as it is. An error that is retrysafe.ErrLeaseLost says that
// the work took longer than the lock was held, and that another may have worked at the same time;
// it is joined to that of work. Where the server does not say whether it took the lock, nothing was
// run, and the lock may stand for its life.
func (l *Lock) Run(ctx context.Context, name string, work func(context.Context) error) (err error) {
	key, err := l.name("", name)
	if err != nil {
		return err
	}
	owner := random()
	n, err := l.eval(ctx, lockTake, key, owner, l.life())
	if err != nil {
		return err
	}
	if n != 1 {
		return fmt.Errorf("classic: somebody else has the lock, and nothing was run; try again later: %w", retrysafe.ErrInProgress)
	}
	defer func() { // a panic gives it back too
		if lost := l.give(ctx, key, owner); lost != nil {
			err = errors.Join(err, lost)
		}
	}()
	return work(ctx)
}

// give gives the lock back. Where the server does not say so, the lock ends by itself.
func (l *Lock) give(ctx context.Context, key, owner string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveTime)
	defer cancel()
	n, err := l.eval(ctx, lockGive, key, owner)
	if err != nil || n == 1 {
		return nil
	}
	return fmt.Errorf("classic: the lock had ended before the work did, and another may have worked at the same time; give it a longer Life: %w", retrysafe.ErrLeaseLost)
}
