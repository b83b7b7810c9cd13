package zklock

import (
	"context"
	"errors"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/lock"
)

// TryLock implements [lock.Backend]. The lease is that of the session, whatever was asked for.
//
// After an error that is not [lock.ErrHeld] whatever was made for this call is taken away again, as
// soon as the server can be reached.
func (b *Backend) TryLock(ctx context.Context, r lock.Request) (lock.Grant, error) {
	if ctx.Err() != nil {
		return lock.Grant{}, context.Cause(ctx)
	}
	p := b.open(r, true)
	return do(ctx, b, r, p, func() (lock.Grant, error) { return b.take(ctx, p) })
}

// take is TryLock, for as long as it takes. The place's mutex is held.
func (b *Backend) take(ctx context.Context, p *place) (lock.Grant, error) {
	queue, stat, err := b.look(ctx, p)
	if err != nil {
		return lock.Grant{}, err
	}
	previous, err := before(queue, p.name())
	switch {
	case err != nil:
		return lock.Grant{}, err
	case previous != "" && p.queued:
		return lock.Grant{}, lock.ErrHeld
	case previous != "":
		if err := b.conn.Delete(p.node, -1); err != nil && !errors.Is(err, zk.ErrNoNode) {
			return lock.Grant{}, failed("leave the queue", err)
		}
		p.forget()
		return lock.Grant{}, lock.ErrHeld
	}
	if p.fence == 0 {
		// The list's last change. It is not before our own coming; and who has the lock next sees a
		// list from which we have gone, which is a later change.
		p.fence = retrysafe.Fence(stat.Pzxid) //nolint:gosec // ids of transactions are positive
	}
	g := lock.Grant{Fence: p.fence, Lease: p.session.lease(), Done: p.session.gone}
	if g.Lease <= 0 {
		return lock.Grant{}, errors.New("zklock: the server did not say how long a session lives; is it a ZooKeeper?")
	}
	return g, nil
}

// look is the queue with the own node in it, which is made where it is not there. The place's mutex
// is held.
func (b *Backend) look(ctx context.Context, p *place) ([]string, *zk.Stat, error) {
	for range 3 {
		if p.session != nil && p.session != b.current() {
			p.forget() // it has gone with its session
		}
		old := p.session != nil
		if !old {
			if err := b.enter(ctx, p); err != nil {
				return nil, nil, err
			}
		}
		queue, stat, err := b.list(p, old) // the leader has answered what was made just now
		if err != nil {
			return nil, nil, err
		}
		for _, node := range queue {
			if node == p.name() && p.session == b.current() {
				return queue, stat, nil
			}
		}
		if p.session == b.current() {
			p.forget() // somebody has deleted it
		}
		if ctx.Err() != nil {
			return nil, nil, context.Cause(ctx)
		}
	}
	return nil, nil, failed("keep a place in the queue", errors.New("the own node goes as often as it is made; who deletes it?"))
}

func (p *place) name() string { return p.node[strings.LastIndexByte(p.node, '/')+1:] }

// Wait implements [lock.Backend]. It waits for the one before in the queue only.
func (b *Backend) Wait(ctx context.Context, r lock.Request) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	p := b.open(r, true)
	var gone <-chan struct{}
	previous, err := do(ctx, b, r, p, func() (string, error) {
		queue, _, err := b.look(ctx, p)
		if err != nil {
			return "", err
		}
		previous, err := before(queue, p.name())
		if err != nil || previous == "" {
			p.queued = p.queued || err == nil
			return "", err
		}
		p.queued, gone = true, p.session.gone
		return p.parent + "/" + previous, nil
	})
	if err != nil || previous == "" {
		return err
	}
	return b.await(ctx, previous, gone)
}

// Extend implements [lock.Backend]: it asks the leader whether the lock is still there. The lease
// is that of the session.
func (b *Backend) Extend(ctx context.Context, r lock.Request) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	p := b.open(r, false)
	if p == nil {
		return lock.ErrLost
	}
	return b.ask(ctx, func() error {
		p.mu.Lock()
		node, s, held := p.node, p.session, p.fence != 0
		b.shut(r, p)
		p.mu.Unlock() // it holds up no Unlock
		if !held || s != b.current() {
			return lock.ErrLost
		}
		_, err := b.conn.Sync(p.parent)
		there := false
		if err == nil {
			there, _, err = b.conn.Exists(node)
		}
		switch {
		case s != b.current() || err == nil && !there:
			return lock.ErrLost
		case err != nil:
			return failed("ask for the own node", err)
		}
		return nil
	})
}

// Unlock implements [lock.Backend]. Where the server did not confirm it goes on by itself, until it
// has or the session is gone; who asks again is told how it ended.
func (b *Backend) Unlock(ctx context.Context, r lock.Request) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	p := b.open(r, false)
	if p == nil {
		return lock.ErrLost
	}
	_, err := do(ctx, b, r, p, func() (struct{}, error) { return struct{}{}, b.leave(p) })
	return err
}

// leave is Unlock, for as long as it takes. The place's mutex is held.
func (b *Backend) leave(p *place) error {
	if p.session == nil {
		if p.removed {
			return nil
		}
		return lock.ErrLost
	}
	if p.session != b.current() {
		p.forget()
		return lock.ErrLost
	}
	switch err := b.conn.Delete(p.node, -1); {
	case err == nil:
		p.forget()
		p.removed = true
		return nil
	case errors.Is(err, zk.ErrNoNode):
		p.forget()
		return lock.ErrLost
	default:
		p.node = "" // in doubt: the list will tell
		return failed("delete the own node", err)
	}
}
