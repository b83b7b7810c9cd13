// Package memranges is a source of ranges in memory, for tests and trials. It loses its counters
// when the process ends, and values then repeat.
package memranges

import (
	"context"
	"math"
	"sync"

	"github.com/retrysafe/retrysafe/idgen"
)

// Ranges stores the next value of each tag. It is safe for concurrent use.
type Ranges struct {
	mu   sync.Mutex
	tags map[string]*counter
}

type counter struct{ next, step int64 }

var _ idgen.Ranges = (*Ranges)(nil)

// New returns ranges without tags.
func New() *Ranges { return &Ranges{tags: map[string]*counter{}} }

// Create creates a tag with the given first value and with ranges of at least step values. An
// existing tag stays unchanged, and created is false.
func (r *Ranges) Create(_ context.Context, tag string, first, step int64) (created bool, err error) {
	if err := idgen.CheckNew(tag, first, step); err != nil {
		return false, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.tags[tag] != nil {
		return false, nil
	}
	r.tags[tag] = &counter{first, step}
	return true, nil
}

// Allocate implements [idgen.Ranges].
func (r *Ranges) Allocate(ctx context.Context, tag string, n int64) (first, count int64, err error) {
	if ctx.Err() != nil {
		return 0, 0, context.Cause(ctx)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.tags[tag]
	if c == nil {
		return 0, 0, idgen.ErrNoTag
	}
	n = max(n, c.step)
	if c.next > math.MaxInt64-n {
		return 0, 0, idgen.ErrSpent
	}
	first = c.next
	c.next += n
	return first, n, nil
}
