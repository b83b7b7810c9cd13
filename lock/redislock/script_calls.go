package redislock

import (
	"context"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
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

//go:embed lua/pass.lua
var passLua string

//go:embed lua/raise.lua
var raiseLua string

//go:embed lua/left.lua
var leftLua string

//go:embed lua/held.lua
var heldLua string

// The scripts that end a lock also run when memory is full: they make nothing larger, except for
// the first floor of a slot.
var (
	lockScript     = redisclient.NewScript("lock", "#!lua\n"+lockLua)
	extendScript   = redisclient.NewScript("extend", "#!lua flags=allow-oom\n"+extendLua)
	unlockScript   = redisclient.NewScript("unlock", "#!lua flags=allow-oom\n"+unlockLua)
	passScript     = redisclient.NewScript("pass", "#!lua flags=allow-oom\n"+passLua)
	raiseScript    = redisclient.NewScript("raise", "#!lua flags=allow-oom\n"+raiseLua)
	timeLeftScript = redisclient.NewScript("left", "#!lua flags=no-writes\n"+leftLua)
	heldLockScript = redisclient.NewScript("held", "#!lua flags=no-writes\n"+heldLua)
)

var errReply = errors.New("redislock: the server's reply is not that of the script; is there a proxy in between that changes replies?")

// TryLock implements [lock.Backend].
func (b *Backend) TryLock(ctx context.Context, r lock.Request) (lock.Grant, error) {
	n, err := b.evalConfirmed(ctx, b.leaseCall(lockScript, r))
	switch {
	case n < 0:
		return lock.Grant{}, lock.ErrHeld
	case err != nil:
		return lock.Grant{}, err
	}
	return lock.Grant{Fence: toFence(n)}, nil
}

// Extend implements [lock.Backend].
func (b *Backend) Extend(ctx context.Context, r lock.Request) error {
	return lostIfZero(b.evalConfirmed(ctx, b.leaseCall(extendScript, r)))
}

// evalConfirmed makes a call and waits until the replicas have what it wrote. If too few replicas
// have it, evalConfirmed returns the script's number and an error. If the caller then repeats the
// call, the replicas are counted again; otherwise the lock is released, or ends with its lease.
func (b *Backend) evalConfirmed(ctx context.Context, call redisclient.Call) (int64, error) {
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	reply, acked, need := b.primaries.Eval(ctx, call)
	n, err := readNumber(reply)
	if err == nil && acked < need {
		err = fmt.Errorf("redislock: %d of %d replicas have confirmed the lock in time; look at the replicas, and whether the user may WAIT, or ask for fewer", acked, need)
	}
	return n, err
}

// afterUnlock is how long the name of a lock is kept after its release, in case the release is
// repeated. The lock's fence is in the floor of its slot.
const afterUnlock = 5 * time.Minute

// Unlock implements [lock.Backend].
func (b *Backend) Unlock(ctx context.Context, r lock.Request) error {
	return b.evalOwned(ctx, b.newCall(unlockScript, r, uint64(r.Lease.Microseconds()), uint64(min(b.o.Remember, afterUnlock).Milliseconds()))) //nolint:gosec // both are positive
}

// Pass implements [lock.Passer]. With [Options].Replicas it returns [errors.ErrUnsupported]: a
// grant has to wait for the replicas, and a release has not.
func (b *Backend) Pass(ctx context.Context, from, next lock.Request) (lock.Grant, error) {
	if b.o.Replicas != 0 {
		return lock.Grant{}, fmt.Errorf("redislock: with Replicas, Pass is not used: %w", errors.ErrUnsupported)
	}
	call := b.leaseCall(passScript, next)
	call.Args = append(call.Args, string(from.Owner[:]))
	n, err := b.evalNumber(ctx, call)
	if err := lostIfZero(n, err); err != nil {
		return lock.Grant{}, err
	}
	return lock.Grant{Fence: toFence(n)}, nil
}

// evalOwned makes a call whose script returns 1, or 0 if the owner has nothing.
func (b *Backend) evalOwned(ctx context.Context, call redisclient.Call) error {
	return lostIfZero(b.evalNumber(ctx, call))
}

func lostIfZero(n int64, err error) error {
	if err == nil && n == 0 {
		return lock.ErrLost
	}
	return err
}

func (b *Backend) evalNumber(ctx context.Context, call redisclient.Call) (int64, error) {
	if err := ctx.Err(); err != nil {
		return 0, context.Cause(ctx)
	}
	return readNumber(b.client.Eval(ctx, call))
}

// readNumber reads the number that every script here returns.
func readNumber(r redisclient.Reply) (int64, error) {
	if r.Err != nil {
		return 0, explainRefusal(r.Err)
	}
	n, ok := r.Value.(int64)
	if !ok {
		return 0, errReply
	}
	return n, nil
}

// leaseCall makes a call with the owner and the times of r.
func (b *Backend) leaseCall(s *redisclient.Script, r lock.Request) redisclient.Call {
	return b.newCall(s, r, uint64(r.Lease.Microseconds()), uint64(b.o.Remember.Milliseconds())) //nolint:gosec // both are positive
}

// newCall makes a call whose one argument is the owner, followed by numbers of 8 bytes. As
// elsewhere, braces in a name choose its slot.
func (b *Backend) newCall(s *redisclient.Script, r lock.Request, numbers ...uint64) redisclient.Call {
	var space [40]byte
	arg := append(space[:0], r.Owner[:]...)
	for _, n := range numbers {
		arg = binary.BigEndian.AppendUint64(arg, n)
	}
	name := b.o.Prefix + r.Name
	all := &[3]string{name, b.floorKey(name), string(arg)}
	return redisclient.Call{Script: s, Keys: all[:2:2], Args: all[2:]}
}
