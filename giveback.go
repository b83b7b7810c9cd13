package retrysafe

import (
	"container/heap"
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe/storeapi"
)

// Bounds for claims that are given back.
const (
	// maxClaims bounds the claims that wait to be given back; each takes about 500 bytes.
	maxClaims    = 1 << 16
	claimSlack   = 100 * time.Millisecond // after the time when a claim can no longer be applied
	claimRest    = time.Second            // between two looks at one claim
	maxClaimRest = 30 * time.Second
	storeRest    = 5 * time.Second // between two looks at a store that is away, at most
)

// claim is a claim whose reply was lost. After notAfter the store can no longer apply it. If the
// record is then in progress under its owner, no caller got that attempt, since an owner is made
// for one call. ours is the fence that this call got in the end, if it got one.
type claim struct {
	key      storeapi.StoreKey
	owner    storeapi.Owner
	ifFence  Fence
	notAfter time.Time // by the store's clock
	ours     Fence
	// what the record was before, to which it is given back; nil: not known
	before   *storeapi.ReleaseRequest
	reserved *reservation

	due, giveUp time.Time
	rest        time.Duration
}

// givingBack gives back the claims of an engine, one after the other. An outage of the store leaves
// as many claims as there were calls; a goroutine and a call a second for each of them would be too
// many.
type givingBack struct {
	rt *runtime

	mu sync.Mutex
	// A store may have parts, and one of them may be away. So that its claims do not hold up those
	// of the others, fresh ones and failed ones take turns, and of the fresh ones that are due
	// (ready) the latest comes first.
	fresh, failed claimHeap
	ready         []*claim
	failedNext    bool
	count         int // of all claims, the one that run holds included
	running       bool
}

// reclaim gives back a claim whose reply was lost. Otherwise an outage of the store would leave
// keys in doubt although nothing ran. If too many claims wait already, the lease of this one
// expires instead.
//
// A claim that made a new key stays counted, also when it is given back, since its record is known
// from now on. It also stays counted if its outcome remains unknown.
func (g *givingBack) reclaim(req *storeapi.AcquireRequest, seen *Record, notAfter time.Time, ours Fence, reserved *reservation) {
	now := time.Now()
	kept := g.add(&claim{
		key: req.Key, owner: req.Owner, ifFence: req.IfFence, notAfter: notAfter, ours: ours, before: asBefore(req, seen), reserved: reserved,
		due: now.Add(max(0, notAfter.Sub(g.rt.clock.at(now))) + claimSlack), giveUp: now.Add(giveBackTime),
		rest: claimRest,
	})
	if !kept {
		g.lapses(req.Key)
	}
}

// add queues a claim, and starts run if it is not running. It returns false if the queue is full.
func (g *givingBack) add(c *claim) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.count >= maxClaims {
		return false
	}
	g.count++
	g.rt.life.stay() // Shutdown waits for it
	heap.Push(&g.fresh, c)
	if g.running {
		return true
	}
	if g.running = g.rt.background.start(g.run); !g.running {
		g.drop()
	}
	return true
}

func (g *givingBack) lapses(key storeapi.StoreKey) {
	if g.rt.trace.Lapse != nil {
		g.rt.trace.Lapse(g.rt.ctx, AttemptInfo{Key: key.Key})
	}
}

// run gives back the claims that are due, until none is left or the engine ends. While the store is
// away it looks less and less often.
func (g *givingBack) run() {
	var away time.Duration
	for {
		next, wait := g.next()
		if next == nil && wait == 0 {
			return
		}
		if next == nil {
			// No longer than a second: another claim may be added that is due earlier.
			if !g.rt.sleep(min(wait, claimRest)) {
				g.end()
				return
			}
			continue
		}
		answered, done := g.try(next)
		if !done && time.Now().After(next.giveUp) {
			g.lapses(next.key)
			done = true
		}
		g.put(next, answered, done)
		if answered {
			away = 0
			continue
		}
		away = min(max(2*away, claimSlack), storeRest)
		if !g.rt.sleep(away/2 + rand.N(away)) {
			g.end()
			return
		}
	}
}

// next returns a claim that is due, or how long to wait for one. If it returns neither, there is no
// claim and run must return.
func (g *givingBack) next() (*claim, time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.count == 0 {
		g.running = false
		return nil, 0
	}
	for len(g.fresh) > 0 && time.Until(g.fresh[0].due) <= 0 {
		c, _ := heap.Pop(&g.fresh).(*claim)
		g.ready = append(g.ready, c)
	}
	failedIsDue := len(g.failed) > 0 && time.Until(g.failed[0].due) <= 0
	if last := len(g.ready) - 1; last >= 0 && (!failedIsDue || !g.failedNext) {
		c := g.ready[last]
		g.ready[last] = nil
		g.ready = g.ready[:last]
		g.failedNext = true
		return c, 0
	}
	if failedIsDue {
		g.failedNext = false
		c, _ := heap.Pop(&g.failed).(*claim)
		return c, 0
	}
	wait := claimRest
	for _, h := range []claimHeap{g.fresh, g.failed} {
		if len(h) > 0 {
			wait = min(wait, max(time.Until(h[0].due), time.Millisecond))
		}
	}
	return nil, wait
}

// put takes back a claim that was tried: it is done, or tried again when it is due.
func (g *givingBack) put(c *claim, answered, done bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case done:
		g.count--
		g.rt.life.leave()
	case answered:
		heap.Push(&g.fresh, c)
	default:
		heap.Push(&g.failed, c)
	}
}

// end drops all claims, since the engine has ended. Their leases expire.
func (g *givingBack) end() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.running = false
	g.drop()
}

func (g *givingBack) drop() {
	for range g.count {
		g.rt.life.leave()
	}
	g.fresh, g.failed, g.ready, g.count = nil, nil, nil, 0
}

// try looks at a claim once. done reports whether the claim was given back or need not be; answered
// reports whether the store answered.
func (g *givingBack) try(c *claim) (answered, done bool) {
	ctx, cancel := context.WithTimeout(g.rt.ctx, acquireLimit)
	defer cancel()
	rec, err := g.rt.lookup(ctx, c.key)
	if err == nil && !rec.Now.After(c.notAfter) {
		c.due = time.Now().Add(c.notAfter.Sub(rec.Now) + claimSlack)
		return true, false
	}
	if err == nil {
		c.reserved.finish(began(&rec, c.owner))
		if rec.State != StateInProgress || rec.Owner != c.owner || rec.Fence == c.ours {
			return true, true
		}
		back := storeapi.ReleaseRequest{Cause: causeUnanswered, InDoubt: mayFollowDoubt(&rec, c.ifFence)}
		if c.before != nil {
			back = *c.before
		}
		back.Key, back.Owner, back.Fence = c.key, rec.Owner, rec.Fence
		err = g.release(ctx, back)
		if err == nil || !mayBeApplied(err) {
			return true, true
		}
	}
	c.due = time.Now().Add(c.rest/2 + rand.N(c.rest))
	c.rest = min(2*c.rest, maxClaimRest)
	return false, false
}

// claimHeap is a heap of claims, with the one that is due first at its top.
type claimHeap []*claim

func (h claimHeap) Len() int           { return len(h) }
func (h claimHeap) Less(i, j int) bool { return h[i].due.Before(h[j].due) }
func (h claimHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *claimHeap) Push(x any)        { *h = append(*h, x.(*claim)) } //nolint:errcheck,forcetypeassert // only claims are pushed
func (h *claimHeap) Pop() any {
	last := len(*h) - 1
	c := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return c
}

// mayFollowDoubt reports whether the record that was acquired may have been in doubt, or failed,
// before. It then goes back to being in doubt: that this attempt did nothing says nothing about the
// one before it.
func mayFollowDoubt(rec *Record, ifFence Fence) bool {
	return ifFence != 0 || rec.OnDoubt == Reexecute && rec.Attempt > 1
}

// asBefore returns the release that makes the record that req takes over by its fence what it was,
// or nil if seen does not say. A doubt keeps the cause and the error of the incident.
func asBefore(req *storeapi.AcquireRequest, seen *Record) *storeapi.ReleaseRequest {
	if seen != nil && seen.InDoubt() && seen.Fence == req.IfFence {
		return &storeapi.ReleaseRequest{InDoubt: true, Cause: storeapi.ShownCause(seen), LastError: seen.LastError}
	}
	return asReleased(req, seen)
}

// asReleased returns how the record that req takes over by its fence was released, or nil if it was
// not. A claim that did nothing leaves such a record as it was: a released record changes only with
// its fence, so seen is what the claim found.
func asReleased(req *storeapi.AcquireRequest, seen *Record) *storeapi.ReleaseRequest {
	if seen == nil || seen.State != StateReleased || seen.Fence != req.IfFence {
		return nil
	}
	return &storeapi.ReleaseRequest{Cause: seen.Cause, LastError: seen.LastError}
}

func (g *givingBack) release(ctx context.Context, req storeapi.ReleaseRequest) error {
	done := g.rt.trace.store(ctx, "release")
	err := g.rt.store.Release(ctx, req)
	done.with(err)
	return err
}
