package zklock

import (
	"context"
	"errors"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/lock"
)

// TryLock implements [lock.Backend]. The lease is that of the session, whatever the request says.
//
// After any error but [lock.ErrHeld], the backend deletes the nodes of this call as soon as it can
// reach the server.
func (b *Backend) TryLock(ctx context.Context, r lock.Request) (lock.Grant, error) {
	if ctx.Err() != nil {
		return lock.Grant{}, context.Cause(ctx)
	}
	p := b.borrowPlace(r, true)
	return runOnPlace(ctx, b, r, p, func() (lock.Grant, error) { return b.tryAcquire(ctx, p) })
}

// tryAcquire is TryLock without an end of its context. The place's mutex is held.
func (b *Backend) tryAcquire(ctx context.Context, p *queuePlace) (lock.Grant, error) {
	queue, stat, err := b.joinQueue(ctx, p)
	if err != nil {
		return lock.Grant{}, err
	}
	previous, err := previousNode(queue, p.nodeName())
	switch {
	case err != nil:
		return lock.Grant{}, err
	case previous != "" && p.queued:
		return lock.Grant{}, lock.ErrHeld
	case previous != "":
		if err := b.conn.Delete(p.node, -1); err != nil && !errors.Is(err, zk.ErrNoNode) {
			return lock.Grant{}, stepError("leave the queue", err)
		}
		p.reset()
		return lock.Grant{}, lock.ErrHeld
	}
	if p.fence == 0 {
		// The transaction of the list's last change. It is not earlier than our node's creation.
		// The next holder sees a list without our node, which is a later change.
		p.fence = retrysafe.Fence(stat.Pzxid) //nolint:gosec // ids of transactions are positive
	}
	g := lock.Grant{Fence: p.fence, Lease: p.session.lease(), Done: p.session.ended}
	if g.Lease <= 0 {
		return lock.Grant{}, errors.New("zklock: the server did not say how long a session lives; is it a ZooKeeper?")
	}
	return g, nil
}

// joinQueue returns the queue with the own node in it, and creates that node if it is missing. The
// place's mutex is held.
func (b *Backend) joinQueue(ctx context.Context, p *queuePlace) ([]string, *zk.Stat, error) {
	for range 3 {
		if p.session != nil && p.session != b.currentSession() {
			p.reset() // it is gone with its session
		}
		old := p.session != nil
		if !old {
			if err := b.createNode(ctx, p); err != nil {
				return nil, nil, err
			}
		}
		// a node that was just created: the leader has answered
		queue, stat, err := b.listQueue(p, old)
		if err != nil {
			return nil, nil, err
		}
		for _, node := range queue {
			if node == p.nodeName() && p.session == b.currentSession() {
				return queue, stat, nil
			}
		}
		if p.session == b.currentSession() {
			p.reset() // another client has deleted it
		}
		if ctx.Err() != nil {
			return nil, nil, context.Cause(ctx)
		}
	}
	return nil, nil, stepError("keep a place in the queue", errors.New("the own node goes as often as it is made; who deletes it?"))
}

func (p *queuePlace) nodeName() string { return p.node[strings.LastIndexByte(p.node, '/')+1:] }

// Wait implements [lock.Backend]. It only waits for the node before its own in the queue.
func (b *Backend) Wait(ctx context.Context, r lock.Request) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	p := b.borrowPlace(r, true)
	var gone <-chan struct{}
	previous, err := runOnPlace(ctx, b, r, p, func() (string, error) {
		queue, _, err := b.joinQueue(ctx, p)
		if err != nil {
			return "", err
		}
		previous, err := previousNode(queue, p.nodeName())
		if err != nil || previous == "" {
			p.queued = p.queued || err == nil
			return "", err
		}
		p.queued, gone = true, p.session.ended
		return p.parent + "/" + previous, nil
	})
	if err != nil || previous == "" {
		return err
	}
	return b.waitForNode(ctx, previous, gone)
}

// Extend implements [lock.Backend]. It asks the leader whether the lock still exists. The lease is
// that of the session.
func (b *Backend) Extend(ctx context.Context, r lock.Request) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	p := b.borrowPlace(r, false)
	if p == nil {
		return lock.ErrLost
	}
	return b.callClient(ctx, func() error {
		p.mu.Lock()
		node, s, held := p.node, p.session, p.fence != 0
		b.returnPlace(r, p)
		p.mu.Unlock() // does not block Unlock
		if !held || s != b.currentSession() {
			return lock.ErrLost
		}
		_, err := b.conn.Sync(p.parent)
		there := false
		if err == nil {
			there, _, err = b.conn.Exists(node)
		}
		switch {
		case s != b.currentSession() || err == nil && !there:
			return lock.ErrLost
		case err != nil:
			return stepError("ask for the own node", err)
		}
		return nil
	})
}

// Unlock implements [lock.Backend]. If the server has not confirmed it, the backend continues until
// it has or the session is gone. Another call of Unlock returns the result.
func (b *Backend) Unlock(ctx context.Context, r lock.Request) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	p := b.borrowPlace(r, false)
	if p == nil {
		return lock.ErrLost
	}
	_, err := runOnPlace(ctx, b, r, p, func() (struct{}, error) { return struct{}{}, b.deleteOwnNode(p) })
	return err
}

// deleteOwnNode is Unlock without an end of its context. The place's mutex is held.
func (b *Backend) deleteOwnNode(p *queuePlace) error {
	if p.session == nil {
		if p.removed {
			return nil
		}
		return lock.ErrLost
	}
	if p.session != b.currentSession() {
		p.reset()
		return lock.ErrLost
	}
	switch err := b.conn.Delete(p.node, -1); {
	case err == nil:
		p.reset()
		p.removed = true
		return nil
	case errors.Is(err, zk.ErrNoNode):
		p.reset()
		return lock.ErrLost
	default:
		p.node = "" // in doubt: the list will show it
		return stepError("delete the own node", err)
	}
}
