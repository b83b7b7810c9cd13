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
	young, old map[Tenant]*cached
	drops      int // how often drop was called
}

type cached struct {
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

// dropped returns how often a key was dropped, for put.
func (c *cache) dropped() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.drops
}

// put stores a data key that was read after drops keys were dropped. If one was dropped since, it
// may be this one, and is not stored.
func (c *cache) put(t Tenant, k *dataKey, drops int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.drops == drops {
		c.add(t, &cached{key: k, at: c.clock()})
	}
}

func (c *cache) add(t Tenant, e *cached) {
	if c.young == nil || len(c.young) >= max(1, c.most/2) {
		c.old, c.young = c.young, make(map[Tenant]*cached)
	}
	c.young[t] = e
}

// drop removes a tenant's data key.
func (c *cache) drop(t Tenant) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drops++
	delete(c.young, t)
	delete(c.old, t)
}
