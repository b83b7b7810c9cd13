package lock

import (
	"context"
	"time"

	"github.com/retrysafe/retrysafe"
)

// Held is a lock that some owner holds.
type Held struct {
	// Name is the name of the lock. It may be a secret, as it often has the id of a customer.
	Name string
	// Fence is that of the holder.
	Fence retrysafe.Fence
	// Lease is how long the lock stays held if its holder sends nothing, by the backend's clock.
	Lease time.Duration
	// Waiting is how many clients of the backend wait for the lock. Callers that queue in one
	// [Locker] are one client. It is -1 if the backend does not know.
	Waiting int
}

// Lister is an optional interface of a [Backend]: it lists the locks that are held, for people. It
// changes nothing.
//
// There is no call that takes a lock away from its holder, and a list is no reason to build one:
// the holder would not know, and would go on to write. If its process is dead, the lease ends by
// itself. If it is alive, end the process. In both cases the fence refuses what it still writes.
type Lister interface {
	// List returns a page of the locks that are held. A call does a bounded amount of work, so a
	// page can be short or empty and be followed by others.
	//
	// A lock that is held during the whole list is on one page. While servers fail over, or move or
	// resize their data, a lock can be left out or be listed twice. The error is
	// errors.ErrUnsupported if the backend cannot list, in its present form.
	List(context.Context, ListRequest) (Page, error)
}

// ListRequest asks for a page of a list.
type ListRequest struct {
	// After is empty for the first page, and then the Next of the page before.
	After string
	// Limit is the largest number of locks on the page, 1 to 1000; default 100.
	Limit int
}

// Size returns the largest number of locks on the page, with the default and the maximum applied.
func (r *ListRequest) Size() int {
	if r.Limit <= 0 {
		return 100
	}
	return min(r.Limit, 1000)
}

// Page is a part of a list.
type Page struct {
	Locks []Held
	// Next is the After of the next page; empty after the last page, and only then: a page before
	// it can be shorter than its limit, or empty. It may contain the name of a lock.
	Next string
}
