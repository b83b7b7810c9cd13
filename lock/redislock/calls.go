package redislock

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/retrysafe/retrysafe/lock"
	"github.com/retrysafe/retrysafe/redisclient"
)

//go:embed lua/lock.lua
var lockLua string

//go:embed lua/extend.lua
var extendLua string

//go:embed lua/unlock.lua
var unlockLua string

//go:embed lua/raise.lua
var raiseLua string

//go:embed lua/left.lua
var leftLua string

// What ends a lock is taken also where memory is full: it makes nothing larger.
var (
	lockScript   = redisclient.NewScript("lock", "#!lua\n"+lockLua)
	extendScript = redisclient.NewScript("extend", "#!lua flags=allow-oom\n"+extendLua)
	unlockScript = redisclient.NewScript("unlock", "#!lua flags=allow-oom\n"+unlockLua)
	raiseScript  = redisclient.NewScript("raise", "#!lua flags=allow-oom\n"+raiseLua)
	leftScript   = redisclient.NewScript("left", "#!lua flags=no-writes\n"+leftLua)
)

var errReply = errors.New("redislock: the server's reply is not that of the script; is there a proxy in between that changes replies?")

// TryLock implements [lock.Backend].
func (b *Backend) TryLock(ctx context.Context, r lock.Request) (lock.Grant, error) {
	if err := ctx.Err(); err != nil {
		return lock.Grant{}, context.Cause(ctx)
	}
	call := b.call(lockScript, r, span(r.Lease), b.remember())
	need := b.o.Replicas
	if need == All {
		need = int(b.replicas.Load())
	}
	var reply redisclient.Reply
	acked := need
	if need == 0 {
		reply = b.client.Eval(ctx, call)
	} else {
		reply, acked = b.client.(redisclient.Replicated).EvalWait(ctx, call, need, b.o.ReplicaTime) //nolint:errcheck,forcetypeassert // New has looked
	}
	if reply.Err != nil {
		return lock.Grant{}, refusal(reply.Err)
	}
	pair, _ := reply.Value.([]any)
	if len(pair) != 2 {
		return lock.Grant{}, errReply
	}
	n, ok := pair[1].(int64)
	switch {
	case !ok:
		return lock.Grant{}, errReply
	case pair[0] == int64(0):
		return lock.Grant{}, lock.ErrHeld
	case acked < need: // who asks again is counted anew; else it is given back
		return lock.Grant{}, fmt.Errorf("redislock: %d of %d replicas have confirmed the lock in time; look at the replicas, or ask for fewer", acked, need)
	}
	return lock.Grant{Fence: fence(n)}, nil
}

// Extend implements [lock.Backend].
func (b *Backend) Extend(ctx context.Context, r lock.Request) error {
	return b.lost(ctx, b.call(extendScript, r, span(r.Lease), b.remember()))
}

// Unlock implements [lock.Backend].
func (b *Backend) Unlock(ctx context.Context, r lock.Request) error {
	return b.lost(ctx, b.call(unlockScript, r, b.remember()))
}

// lost makes a call that says 1, or 0 where the owner has nothing.
func (b *Backend) lost(ctx context.Context, call redisclient.Call) error {
	n, err := b.number(ctx, call)
	if err == nil && n == 0 {
		return lock.ErrLost
	}
	return err
}

func (b *Backend) number(ctx context.Context, call redisclient.Call) (int64, error) {
	if err := ctx.Err(); err != nil {
		return 0, context.Cause(ctx)
	}
	r := b.client.Eval(ctx, call)
	if r.Err != nil {
		return 0, refusal(r.Err)
	}
	n, ok := r.Value.(int64)
	if !ok {
		return 0, errReply
	}
	return n, nil
}

func (b *Backend) call(s *redisclient.Script, r lock.Request, args ...string) redisclient.Call {
	return redisclient.Call{Script: s, Keys: []string{b.key(r.Name)}, Args: append([]string{string(r.Owner[:])}, args...)}
}

// key is what the lock is called on the server. Names with braces choose their slot, as they do elsewhere.
func (b *Backend) key(name string) string { return b.o.Prefix + name }

func span(d time.Duration) string { return strconv.FormatInt(d.Microseconds(), 10) }

func (b *Backend) remember() string { return strconv.FormatInt(b.o.Remember.Milliseconds(), 10) }
