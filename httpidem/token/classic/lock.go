package classic

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/redisclient"
)

// Lock keeps two callers from working on one name at the same time: SET NX PX with a random owner
// before the work, and compare-and-delete after it, so that no caller releases a lock that another
// one has acquired since.
//
// What it does not protect against:
//   - A duplicate that comes after the lock was released runs the work again: a lock alone makes
//     nothing safe to repeat.
//   - Work that takes longer than [Options.Life]: the lock expires, another caller begins, and two
//     work at once. Run reports it at the end, which is too late. Nothing renews the lock
//     meanwhile, and there is no fence with which a resource could refuse the first.
//   - A primary that dies before its replica has the lock: two callers hold it.
//
// It is safe for concurrent use.
type Lock struct{ scriptRunner }

// NewLock returns a Lock on the client's server. It panics on options that [Options.Validate]
// refuses.
func NewLock(c redisclient.Client, o *Options) *Lock {
	return &Lock{newScriptRunner(c, o, "lock", 30*time.Second)}
}

var (
	// A try that is sent again may have the lock already.
	lockAcquireScript = redisclient.NewScript("lock-take", `
if redis.call('GET', KEYS[1]) == ARGV[1] then return 1 end
if redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2], 'NX') then return 1 end
return 0`)
	lockReleaseScript = redisclient.NewScript("lock-give", `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])`)
)

// releaseTime is how long the release of a lock may take. A lock that is not released expires.
const releaseTime = 5 * time.Second

// Run calls work while it holds the lock of a name. retrysafe.ErrInProgress means that another
// caller has the lock, and nothing was run. Run returns an error of work unchanged. If the work
// took longer than the lock was held, Run joins retrysafe.ErrLeaseLost to the error of work:
// another caller may have worked at the same time. If the server does not say whether it took the
// lock, nothing was run, and the lock may exist for its life.
func (l *Lock) Run(ctx context.Context, name string, work func(context.Context) error) (err error) {
	key, err := l.keyName("", name)
	if err != nil {
		return err
	}
	owner := randomText()
	n, err := l.runScript(ctx, lockAcquireScript, key, owner, l.lifeMillis())
	if err != nil {
		return err
	}
	if n != 1 {
		return fmt.Errorf("classic: somebody else has the lock, and nothing was run; try again later: %w", retrysafe.ErrInProgress)
	}
	defer func() { // also after a panic
		if lost := l.releaseLock(ctx, key, owner); lost != nil {
			err = errors.Join(err, lost)
		}
	}()
	return work(ctx)
}

// releaseLock releases the lock. If the server does not confirm, the lock expires.
func (l *Lock) releaseLock(ctx context.Context, key, owner string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTime)
	defer cancel()
	n, err := l.runScript(ctx, lockReleaseScript, key, owner)
	if err != nil || n == 1 {
		return nil
	}
	return fmt.Errorf("classic: the lock had ended before the work did, and another may have worked at the same time; give it a longer Life: %w", retrysafe.ErrLeaseLost)
}
