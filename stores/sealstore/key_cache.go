package sealstore

import (
	"sync"
	"time"
)

// cache has the data keys that were used lately. New ones are put into young. When young is half of
// the cache, it becomes old, and the keys in old are dropped.
type cache struct {
	most  int           // keys
	life  time.Duration // of an entry
	clock func() time.Time

	mu         sync.Mutex
	young, old map[Tenant]*cacheEntry
	removals   int // how often remove was called
}

type cacheEntry struct {
	key *dataKey
	at  time.Time
}

// get returns a tenant's data key, or nil, and whether it is younger than life.
func (c *cache) get(t Tenant) (k *dataKey, fresh bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.young[t]
	if e == nil {
		if e = c.old[t]; e == nil {
			return nil, false
		}
		c.add(t, e)
	}
	age := c.clock().Sub(e.at)
	return e.key, age >= 0 && age < c.life
}

// removalCount returns how often a key was removed, for storeUnlessRemoved.
func (c *cache) removalCount() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.removals
}

// storeUnlessRemoved stores a data key that was read after so many removals. If one was removed
// since, it may be this one, and is not stored.
func (c *cache) storeUnlessRemoved(t Tenant, k *dataKey, removals int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.removals == removals {
		c.add(t, &cacheEntry{key: k, at: c.clock()})
	}
}

func (c *cache) add(t Tenant, e *cacheEntry) {
	if c.young == nil || len(c.young) >= max(1, c.most/2) {
		c.old, c.young = c.young, make(map[Tenant]*cacheEntry)
	}
	c.young[t] = e
}

// remove removes a tenant's data key.
func (c *cache) remove(t Tenant) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.removals++
	delete(c.young, t)
	delete(c.old, t)
}
