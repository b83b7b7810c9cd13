package claim

import (
	"container/heap"
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe/internal/lifetime"
	"github.com/retrysafe/retrysafe/internal/quota"
	"github.com/retrysafe/retrysafe/internal/storecall"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// CauseUnanswered is the cause of a record whose claim had no reply and was given back.
const CauseUnanswered = "unanswered"

// GiveBackTime is how long the engine tries to give back what certainly did not happen, while the
// store is away. It is longer than an outage should take: what is not given back is in doubt under
// Refuse, and an operator looks into a call that did nothing.
const GiveBackTime = time.Hour

// Bounds for claims that are given back.
const (
	// maxClaims bounds the claims that wait to be given back; each takes about 500 bytes.
	maxClaims    = 1 << 16
	claimSlack   = 100 * time.Millisecond // after the time when a claim can no longer be applied
	claimRest    = time.Second            // between two looks at one claim
	maxClaimRest = 30 * time.Second
	storeRest    = 5 * time.Second // between two looks at a store that is away, at most
)

// lostClaim is a claim whose reply was lost. After notAfter the store can no longer apply it. If
// the record is then in progress under its owner, no caller got that attempt, since an owner is
// made for one call. ours is the fence that this call got in the end, if it got one.
type lostClaim struct {
	key      storeapi.StoreKey
	owner    storeapi.Owner
	ifFence  storeapi.Fence
	notAfter time.Time // by the store's clock
	ours     storeapi.Fence
	// what the record was before, to which it is given back; nil: not known
	before   *storeapi.ReleaseRequest
	reserved *quota.Reservation

	due, giveUp time.Time
	pause       time.Duration
}

// lostClaims gives back the lost claims of an engine, one after the other. An outage of the store
// leaves as many claims as there were calls; a goroutine and a call a second for each of them would
// be too many.
type lostClaims struct {
	store *storecall.Store
	life  *lifetime.Life
	lapse func(context.Context, storeapi.StoreKey) // may be nil

	mu sync.Mutex
	// A store may have parts, and one of them may be away. So that its claims do not hold up those
	// of the others, fresh ones and failed ones take turns, and of the fresh ones that are due
	// (ready) the latest comes first.
	fresh, failed claimHeap
	ready         []*lostClaim
	failedNext    bool
	count         int // of all claims, the one that run holds included
	running       bool
}

// giveBack gives back a claim whose reply was lost. Otherwise an outage of the store would leave
// keys in doubt although nothing ran. If too many claims wait already, the lease of this one
// expires instead.
//
// A claim that made a new key stays counted, also when it is given back, since its record is known
// from now on. It also stays counted if its outcome remains unknown.
func (g *lostClaims) giveBack(req *storeapi.AcquireRequest, seen *storeapi.Record, notAfter time.Time, ours storeapi.Fence, reserved *quota.Reservation) {
	now := time.Now()
	kept := g.add(&lostClaim{
		key: req.Key, owner: req.Owner, ifFence: req.IfFence, notAfter: notAfter, ours: ours, before: RestoringRelease(req, seen), reserved: reserved,
		due: now.Add(max(0, notAfter.Sub(g.store.TimeAt(now))) + claimSlack), giveUp: now.Add(GiveBackTime),
		pause: claimRest,
	})
	if !kept {
		g.reportLapse(req.Key)
	}
}

// add queues a claim, and starts run if it is not running. It returns false if the queue is full.
func (g *lostClaims) add(c *lostClaim) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.count >= maxClaims {
		return false
	}
	g.count++
	g.life.EnterAgain() // Shutdown waits for it
	heap.Push(&g.fresh, c)
	if g.running {
		return true
	}
	if g.running = g.life.Go(g.run); !g.running {
		g.dropClaims()
	}
	return true
}

func (g *lostClaims) reportLapse(key storeapi.StoreKey) {
	if g.lapse != nil {
		g.lapse(g.life.Context(), key)
	}
}

// run gives back the claims that are due, until none is left or the engine ends. While the store is
// away it looks less and less often.
func (g *lostClaims) run() {
	var away time.Duration
	for {
		next, wait := g.nextDue()
		if next == nil && wait == 0 {
			return
		}
		if next == nil {
			// No longer than a second: another claim may be added that is due earlier.
			if !g.life.Sleep(min(wait, claimRest)) {
				g.abandonAll()
				return
			}
			continue
		}
		answered, done := g.tryGiveBack(next)
		if !done && time.Now().After(next.giveUp) {
			g.reportLapse(next.key)
			done = true
		}
		g.finishTry(next, answered, done)
		if answered {
			away = 0
			continue
		}
		away = min(max(2*away, claimSlack), storeRest)
		if !g.life.Sleep(away/2 + rand.N(away)) {
			g.abandonAll()
			return
		}
	}
}

// nextDue returns a claim that is due, or how long to wait for one. If it returns neither, there is
// no claim and run must return.
func (g *lostClaims) nextDue() (*lostClaim, time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.count == 0 {
		g.running = false
		return nil, 0
	}
	for len(g.fresh) > 0 && time.Until(g.fresh[0].due) <= 0 {
		c, _ := heap.Pop(&g.fresh).(*lostClaim)
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
		c, _ := heap.Pop(&g.failed).(*lostClaim)
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

// finishTry takes back a claim that was tried: it is done, or tried again when it is due.
func (g *lostClaims) finishTry(c *lostClaim, answered, done bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case done:
		g.count--
		g.life.Leave()
	case answered:
		heap.Push(&g.fresh, c)
	default:
		heap.Push(&g.failed, c)
	}
}

// abandonAll drops all claims, since the engine has ended. Their leases expire.
func (g *lostClaims) abandonAll() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.running = false
	g.dropClaims()
}

func (g *lostClaims) dropClaims() {
	for range g.count {
		g.life.Leave()
	}
	g.fresh, g.failed, g.ready, g.count = nil, nil, nil, 0
}

// tryGiveBack looks at a claim once. done reports whether the claim was given back or need not be;
// answered reports whether the store answered.
func (g *lostClaims) tryGiveBack(c *lostClaim) (answered, done bool) {
	ctx, cancel := context.WithTimeout(g.life.Context(), storecall.Limit)
	defer cancel()
	rec, err := g.store.Lookup(ctx, c.key)
	if err == nil && !rec.Now.After(c.notAfter) {
		c.due = time.Now().Add(c.notAfter.Sub(rec.Now) + claimSlack)
		return true, false
	}
	if err == nil {
		c.reserved.Finish(madeNewKey(&rec, c.owner))
		if rec.State != storeapi.StateInProgress || rec.Owner != c.owner || rec.Fence == c.ours {
			return true, true
		}
		back := storeapi.ReleaseRequest{Cause: CauseUnanswered, InDoubt: MayFollowDoubt(&rec, c.ifFence)}
		if c.before != nil {
			back = *c.before
		}
		back.Key, back.Owner, back.Fence = c.key, rec.Owner, rec.Fence
		err = g.store.Release(ctx, ctx, back)
		if err == nil || !storecall.MayBeApplied(err) {
			return true, true
		}
	}
	c.due = time.Now().Add(c.pause/2 + rand.N(c.pause))
	c.pause = min(2*c.pause, maxClaimRest)
	return false, false
}

// claimHeap is a heap of claims, with the one that is due first at its top.
type claimHeap []*lostClaim

func (h claimHeap) Len() int           { return len(h) }
func (h claimHeap) Less(i, j int) bool { return h[i].due.Before(h[j].due) }
func (h claimHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *claimHeap) Push(x any)        { *h = append(*h, x.(*lostClaim)) } //nolint:errcheck,forcetypeassert // only claims are pushed
func (h *claimHeap) Pop() any {
	last := len(*h) - 1
	c := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return c
}
