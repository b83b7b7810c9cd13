package redislock

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/backoff"
	"github.com/retrysafe/retrysafe/internal/redisnode"
	"github.com/retrysafe/retrysafe/lock"
	"github.com/retrysafe/retrysafe/redisclient"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// stragglerTime is how long to wait at least for the other servers once a majority has answered.
const stragglerTime = 10 * time.Millisecond

// Quorum keeps locks on a majority of independent servers, so that a minority of them can fail. It
// is safe for concurrent use.
//
// A lock counts once more than half of the servers have it. Each server holds it for the lease plus
// what its clock may be faster (1 %). The lock's fence is the greatest that a majority gave. Quorum
// writes it back to a majority before it returns it: the majority of a later holder shares a server
// with that one, and so gives a greater fence.
//
// This depends on servers that do not forget what they have answered. A server that restarts
// without its last second of writes can grant the same lock to two holders, with the same fence. So
// each must write every command to disk before it answers: appendonly yes, and appendfsync always.
//
// Source: the algorithm that the Redis documentation calls Redlock, and the fence that Martin
// Kleppmann found missing in it.
type Quorum struct {
	servers    []*Backend
	majority   int
	serverTime time.Duration // Options.ServerTime

	mu      sync.Mutex
	votes   map[storeapi.Owner]vote
	sweepAt int // the number of votes at which those that have ended are dropped
}

// vote is an owner's entry on the servers. Each try has a new name there: a call that releases a
// failed try may arrive late, and must not remove the votes of the next try.
type vote struct {
	owner storeapi.Owner
	fence retrysafe.Fence // zero until granted
	ends  time.Time       // then no server has it any more, even if its clock is slow
}

var _ lock.Backend = (*Quorum)(nil)

// NewQuorum returns a backend over three or more single servers, one client for each. It reads the
// configuration of each server, so all of them must be reachable. It refuses servers that may
// forget or do not show their configuration. Options.Replicas must be zero.
func NewQuorum(ctx context.Context, clients []redisclient.Client, o *Options) (*Quorum, error) {
	if len(clients) < 3 {
		return nil, fmt.Errorf("redislock: a quorum of %d servers is none; give three or five", len(clients))
	}
	q := &Quorum{majority: len(clients)/2 + 1, votes: make(map[storeapi.Owner]vote)}
	seen := make(map[string]bool)
	for i, c := range clients {
		b, err := newBackend(c, o)
		if err != nil {
			return nil, err
		}
		if b.o.Replicas != 0 {
			return nil, errors.New("redislock: a quorum has no replicas; leave Replicas zero, or use New")
		}
		if _, ok := c.(redisclient.Nodes); !ok {
			return nil, errors.New("redislock: a quorum needs clients that can ask the server what it is set to; this one cannot")
		}
		n := 0
		err = b.inspectPrimaries(ctx, func(node *redisnode.Node) error {
			n++
			if node.AOF != "1" || node.Fsync != "always" || node.RewriteFsync != "no" || node.RunID == "" {
				return fmt.Errorf("redislock: server %d of the quorum may forget what it has said when it is started again, so that two can hold one lock; set appendonly yes, appendfsync always and no-appendfsync-on-rewrite no, and let the user run CONFIG GET and INFO", i+1)
			}
			if seen[node.RunID] {
				return fmt.Errorf("redislock: server %d of the quorum is one of those before it; give servers that fail apart", i+1)
			}
			seen[node.RunID] = true
			return nil
		})
		if err == nil && n != 1 {
			err = fmt.Errorf("redislock: client %d of the quorum has %d primaries; a quorum is of single servers", i+1, n)
		}
		if err != nil {
			return nil, err
		}
		q.servers, q.serverTime = append(q.servers, b), b.o.ServerTime
	}
	return q, nil
}

// TryLock implements [lock.Backend].
func (q *Quorum) TryLock(ctx context.Context, r lock.Request) (lock.Grant, error) {
	if err := ctx.Err(); err != nil {
		return lock.Grant{}, context.Cause(ctx)
	}
	had := q.currentVote(r)
	at := lengthenLease(r)
	at.Owner = had.owner
	var mu sync.Mutex
	var most retrysafe.Fence
	old := 0 // servers that still have the vote as granted before
	said := q.callServers(ctx, func(ctx context.Context, b *Backend) error {
		g, err := b.TryLock(ctx, at)
		mu.Lock()
		defer mu.Unlock()
		most = max(most, g.Fence)
		if err == nil && g.Fence <= had.fence {
			old++
		}
		return err
	})
	if said.ok < q.majority {
		q.forgetVote(r.Owner)
		// Release what some servers granted; otherwise it ends with its lease.
		q.callServers(context.WithoutCancel(ctx), func(ctx context.Context, b *Backend) error { return b.Unlock(ctx, at) })
		if said.ok+said.held >= q.majority {
			// A majority has answered: another owner has the lock, or a part of a split vote.
			return lock.Grant{}, lock.ErrHeld
		}
		return lock.Grant{}, q.noMajorityError(said)
	}
	mu.Lock()
	fence, repeat := most, old >= q.majority // a server that answers later does not count
	mu.Unlock()
	if repeat { // no other owner had a majority in between
		return lock.Grant{Fence: had.fence}, nil
	}
	said = q.callServers(ctx, func(ctx context.Context, b *Backend) error {
		return b.evalOwned(ctx, b.newCall(raiseScript, at, uint64(fence)))
	})
	if said.ok < q.majority {
		return lock.Grant{}, q.noMajorityError(said)
	}
	q.storeFence(r, had, fence)
	return lock.Grant{Fence: fence}, nil
}

// leastVotes is how many votes are kept before any is dropped.
const leastVotes = 256

// currentVote returns the vote of a request's owner, and makes one if there is none. It is kept
// from now on for twice the lease, so that votes whose release no majority has answered do not pile
// up.
func (q *Quorum) currentVote(r lock.Request) vote {
	q.mu.Lock()
	defer q.mu.Unlock()
	v, ok := q.votes[r.Owner]
	if ok && v.isOver() {
		v, ok = vote{}, false
	}
	if !ok {
		_, _ = rand.Read(v.owner[:]) // never fails: it would end the process
		q.sweepVotes()
	}
	return q.extendVote(r, v)
}

// extendVote stores a vote, which lasts for the request's lease and no shorter than it did: nor
// does a lease on the servers get shorter. The caller holds the mutex.
func (q *Quorum) extendVote(r lock.Request, v vote) vote {
	if ends := time.Now().Add(2*r.Lease + q.serverTime); ends.After(v.ends) {
		v.ends = ends
	}
	q.votes[r.Owner] = v
	return v
}

// storeFence stores the fence of a vote, which an Extend may have changed meanwhile.
func (q *Quorum) storeFence(r lock.Request, v vote, fence retrysafe.Fence) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if now, ok := q.votes[r.Owner]; ok {
		v.ends = now.ends
	}
	v.fence = fence
	q.votes[r.Owner] = v
}

func (v *vote) isOver() bool { return time.Now().After(v.ends) }

// sweepVotes drops the votes that have ended, each time that their number has doubled.
func (q *Quorum) sweepVotes() {
	if len(q.votes) < max(q.sweepAt, leastVotes) {
		return
	}
	for owner, v := range q.votes {
		if v.isOver() {
			delete(q.votes, owner)
		}
	}
	q.sweepAt = 2 * len(q.votes)
}

// serverRequest returns r as the servers know it, and reports whether the owner has a vote. extends
// says that its lease begins again.
func (q *Quorum) serverRequest(r lock.Request, extends bool) (lock.Request, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	v, ok := q.votes[r.Owner]
	if ok && v.isOver() {
		return r, false
	}
	if ok && extends {
		v = q.extendVote(r, v)
	}
	r.Owner = v.owner
	return r, ok
}

func (q *Quorum) forgetVote(owner storeapi.Owner) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.votes, owner)
}

// lengthenLease lengthens the lease for the servers, so that it lasts by the holder's clock even if
// theirs are faster.
func lengthenLease(r lock.Request) lock.Request {
	r.Lease += r.Lease/100 + time.Millisecond
	return r
}

// Wait implements [lock.Backend].
func (q *Quorum) Wait(ctx context.Context, r lock.Request) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	free := make(chan error, len(q.servers))
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	for _, b := range q.servers {
		all.Go(func() { free <- b.Wait(ctx, r) })
	}
	said := tally{}
	for range q.servers {
		said.add(<-free)
		if said.ok == q.majority {
			// Waiters for the same lock would split the vote for ever if they all came at once.
			return backoff.Pause(ctx, mathrand.N(2*time.Millisecond))
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return q.noMajorityError(said)
}

// Extend implements [lock.Backend].
func (q *Quorum) Extend(ctx context.Context, r lock.Request) error {
	at, ok := q.serverRequest(lengthenLease(r), true)
	if !ok {
		return lock.ErrLost
	}
	return q.verdict(q.callServers(ctx, func(ctx context.Context, b *Backend) error { return b.Extend(ctx, at) }))
}

// Unlock implements [lock.Backend].
func (q *Quorum) Unlock(ctx context.Context, r lock.Request) error {
	at, ok := q.serverRequest(r, false)
	if !ok {
		return lock.ErrLost
	}
	err := q.verdict(q.callServers(ctx, func(ctx context.Context, b *Backend) error { return b.Unlock(ctx, at) }))
	if err == nil || errors.Is(err, lock.ErrLost) {
		q.forgetVote(r.Owner)
	}
	return err
}

// verdict combines the answers: nil if a majority agreed, or ErrLost if no majority can any more.
func (q *Quorum) verdict(said tally) error {
	switch {
	case said.ok >= q.majority:
		return nil
	case len(q.servers)-said.lost < q.majority:
		return lock.ErrLost
	}
	return q.noMajorityError(said)
}

// noMajorityError returns the error for too few servers that agree.
func (q *Quorum) noMajorityError(said tally) error {
	if said.err == nil {
		return fmt.Errorf("redislock: %d of %d servers agree, and no majority of %d: the lock was lost while it was taken", said.ok, len(q.servers), q.majority)
	}
	return fmt.Errorf("redislock: %d of %d servers could not be asked, so that no majority of %d agrees; look at them: %w", said.failed, len(q.servers), q.majority, said.err)
}

// tally counts answers.
type tally struct {
	ok, held, lost, failed int
	err                    error
}

func (t *tally) add(err error) {
	switch {
	case err == nil:
		t.ok++
	case errors.Is(err, lock.ErrHeld):
		t.held++
	case errors.Is(err, lock.ErrLost):
		t.lost++
	default:
		t.failed++
		t.err = err
	}
}

// callServers calls all servers at once. Once a majority has agreed, it waits as long again for the
// others, so that a server that hangs does not delay every call. If such a server still carries out
// the call later, the owner has an entry there; its Unlock goes to all servers.
func (q *Quorum) callServers(ctx context.Context, ask func(context.Context, *Backend) error) tally {
	ctx, cancel := context.WithTimeout(ctx, q.serverTime)
	began := time.Now()
	answers := make(chan error, len(q.servers))
	var all sync.WaitGroup
	for _, b := range q.servers {
		all.Go(func() { answers <- ask(ctx, b) })
	}
	go func() {
		all.Wait()
		cancel()
	}()
	var said tally
	var enough <-chan time.Time
	for range q.servers {
		select {
		case err := <-answers:
			said.add(err)
		case <-enough:
			return said
		}
		if said.ok == q.majority && enough == nil {
			timer := time.NewTimer(max(stragglerTime, time.Since(began)))
			defer timer.Stop()
			enough = timer.C
		}
	}
	return said
}
