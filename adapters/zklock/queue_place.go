package zklock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/lock"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

type placeKey struct {
	name  string
	owner storeapi.Owner
}

// queuePlace is the place of an owner in the queue of a lock.
type queuePlace struct {
	parent, id string
	// guarded by the backend's mutex; without users a place is deleted, unless it has a node
	users int

	mu      sync.Mutex // held during calls
	session *session   // session of the node; nil: there is no node
	// path of the node; empty with a session: there may be one, and only the list shows it
	node    string
	queued  bool // it stays while others have the lock
	fence   retrysafe.Fence
	removed bool // there was a node, and this backend deleted it
}

func (p *queuePlace) reset() { p.session, p.node, p.queued, p.fence = nil, "", false, 0 }

// borrowPlace returns the place of an owner, which is in use until returnPlace is called. It
// returns nil if there is none and create is false.
func (b *Backend) borrowPlace(r lock.Request, create bool) *queuePlace {
	b.mu.Lock()
	defer b.mu.Unlock()
	k := placeKey{r.Name, r.Owner}
	p := b.places[k]
	if p == nil {
		if !create {
			return nil
		}
		p = &queuePlace{parent: b.o.Root + "/" + nodeOf(r.Name), id: ownerPrefix(r.Owner)}
		b.places[k] = p
	}
	p.users++
	return p
}

// returnPlace is the end of borrowPlace. The place's mutex is held.
func (b *Backend) returnPlace(r lock.Request, p *queuePlace) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p.users--
	if p.users == 0 && p.session == nil {
		delete(b.places, placeKey{r.Name, r.Owner})
	}
}

// runOnPlace runs f, one at a time for a place. f runs to its end, also if ctx has ended and no
// caller waits for it. A node that is in doubt afterwards, or that was created for a caller that
// has left, is deleted after f.
func runOnPlace[T any](ctx context.Context, b *Backend, r lock.Request, p *queuePlace, f func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	answer := make(chan result)
	if err := b.startTask(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		defer b.returnPlace(r, p)
		fresh := p.session == nil
		var got result
		if got.err = context.Cause(ctx); got.err == nil { // it may have ended before its turn
			got.value, got.err = f()
		}
		told := true
		select {
		case answer <- got:
		case <-ctx.Done():
			told = false
		}
		if p.session != nil && (p.node == "" || fresh && (got.err != nil || !told)) {
			b.removeNodes(p)
		}
	}); err != nil {
		p.mu.Lock()
		b.returnPlace(r, p)
		p.mu.Unlock()
		var none T
		return none, err
	}
	select {
	case got := <-answer:
		return got.value, got.err
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}

// createNode creates a node at the end of the queue. The place's mutex is held.
func (b *Backend) createNode(ctx context.Context, p *queuePlace) error {
	s := b.currentSession()
	for range 5 { // an unused container may be deleted in between
		node, err := b.conn.Create(p.parent+"/"+p.id, nil, zk.FlagEphemeralSequential, b.o.ACL)
		now := b.currentSession()
		switch {
		case errors.Is(err, zk.ErrNoNode):
			if err := b.makeParent(p.parent); err != nil {
				return stepError("make the node of the lock", err)
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			continue
		case err == nil && now == s:
			p.session, p.node, p.removed = s, node, false
			return nil
		case err == nil:
			p.session = now // or of the earlier session, with which it goes
			return stepError("make a place in the queue", errors.New("the session has ended"))
		case isNothingDone(err):
			return stepError("make a place in the queue", err)
		}
		p.session = now
		return stepError("make a place in the queue", err)
	}
	return stepError("make a place in the queue", errors.New("the node of the lock goes as often as it is made"))
}

// listQueue returns the queue. With sync it is the state of the leader. Without, it is the state of
// a server that may be cut off from the others.
func (b *Backend) listQueue(p *queuePlace, sync bool) ([]string, *zk.Stat, error) {
	if sync {
		if _, err := b.conn.Sync(p.parent); err != nil {
			return nil, nil, stepError("ask for the queue", err)
		}
	}
	queue, stat, err := b.conn.Children(p.parent)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return nil, new(zk.Stat), nil
	case err != nil:
		return nil, nil, stepError("ask for the queue", err)
	}
	return queue, stat, nil
}

// removeNodes deletes the nodes that the owner has or may have. It tries until the server has
// confirmed that, or until the session and with it the nodes are gone. The place's mutex is held.
func (b *Backend) removeNodes(p *queuePlace) {
	wait := 20 * time.Millisecond
	for !b.tryRemoveNodes(p) {
		select {
		case <-time.After(wait):
			wait = min(2*wait, time.Second)
		case <-p.session.ended:
		}
	}
	p.reset()
}

func (b *Backend) tryRemoveNodes(p *queuePlace) bool {
	select {
	case <-p.session.ended: // also if the backend was closed
		return true
	default:
	}
	if p.node != "" {
		err := b.conn.Delete(p.node, -1)
		p.removed = p.removed || err == nil
		return err == nil || errors.Is(err, zk.ErrNoNode)
	}
	queue, _, err := b.listQueue(p, true)
	if err != nil {
		return false
	}
	for _, node := range queue {
		if !strings.HasPrefix(node, p.id) {
			continue
		}
		if err := b.conn.Delete(p.parent+"/"+node, -1); err != nil && !errors.Is(err, zk.ErrNoNode) {
			return false
		}
		p.removed = true
	}
	return true
}

// isNothingDone reports whether an error says that the server has done nothing.
func isNothingDone(err error) bool {
	for _, e := range []error{
		zk.ErrNoNode, zk.ErrNodeExists, zk.ErrNoAuth, zk.ErrAuthFailed, zk.ErrInvalidACL, zk.ErrNoChildrenForEphemerals, zk.ErrInvalidPath,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// stepError returns an error that says what failed. The client's errors contain no node.
func stepError(what string, err error) error {
	return fmt.Errorf("zklock: could not %s: %w", what, err)
}
