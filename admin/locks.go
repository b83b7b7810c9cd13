package admin

import (
	"errors"
	"maps"
	"net/http"
	"slices"

	"github.com/retrysafe/retrysafe/lock"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// locksJSON is a page of locks that are held. There is no operation that takes one away; see
// [lock.Lister].
type locksJSON struct {
	Locks []lockJSON `json:"locks" doc:"the locks; a page can be short or empty and be followed by others"`
	Next  string     `json:"next,omitempty" doc:"the parameter after for the next page; absent after the last one"`
}

// lockJSON is a lock that some process holds.
type lockJSON struct {
	Hash    string  `json:"hash" doc:"name of the lock for people"`
	Fence   uint64  `json:"fence" doc:"grows with each holder; the one that writes must carry"`
	Lease   float64 `json:"lease_s" doc:"seconds until it is free if its holder sends nothing"`
	Waiting *int    `json:"waiting,omitempty" doc:"clients that wait for it; absent if the backend does not know"`
	Name    string  `json:"name,omitempty" doc:"its name; only revealed"`
}

func listLockers(c *apiCall) (any, error) {
	return append([]string{}, slices.Sorted(maps.Keys(c.o.Locks))...), nil
}

func listLocks(c *apiCall) (any, error) {
	held, next, err := c.listHeld()
	return c.records.describeLocks(held, next), err
}

func revealLocks(c *apiCall) (any, error) {
	held, next, err := c.listHeld()
	if err != nil {
		return nil, err
	}
	out := c.records.describeLocks(held, next)
	err = c.doReveal(c.o.Audit, "locks "+c.r.PathValue("name"), func() error {
		for i := range held {
			out.Locks[i].Name = held[i].Name
		}
		return nil
	})
	return out, err
}

// listHeld returns the page of locks that the query selects.
func (c *apiCall) listHeld() (held []lock.Held, next string, err error) {
	lister := c.o.Locks[c.r.PathValue("name")]
	if lister == nil {
		return nil, "", newProblem(http.StatusNotFound, "not-found", "there are no locks of this name")
	}
	limit, err := c.pageLimit()
	if err != nil {
		return nil, "", err
	}
	after, err := c.records.refs.openAfter(c.r.URL.Query().Get("after"))
	if err != nil {
		return nil, "", err
	}
	page, err := lister.List(c.r.Context(), lock.ListRequest{After: after, Limit: limit})
	if errors.Is(err, errors.ErrUnsupported) {
		return nil, "", newProblem(http.StatusNotFound, "no-list", "this backend cannot list its locks")
	}
	return page.Locks, c.records.refs.sealAfter(page.Next), err
}

func (d *Records) describeLocks(held []lock.Held, next string) locksJSON {
	out := locksJSON{Locks: []lockJSON{}, Next: next}
	for i := range held {
		out.Locks = append(out.Locks, d.describeLock(&held[i]))
	}
	return out
}

func (d *Records) describeLock(h *lock.Held) lockJSON {
	l := lockJSON{Hash: d.lockHash(h.Name), Fence: uint64(h.Fence), Lease: toSeconds(h.Lease)}
	if h.Waiting >= 0 {
		l.Waiting = &h.Waiting
	}
	return l
}

// lockHash returns the name of a lock for people, as Hash does for a record.
func (d *Records) lockHash(name string) string {
	return d.Hash(storeapi.StoreKey{Namespace: "locks", Layer: "lock", Key: storeapi.Key{Operation: "lock", ID: name}})
}
