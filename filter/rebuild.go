package filter

import (
	"context"
	"errors"
	"fmt"
	"iter"
)

// errNoIDs is an iterator that is none.
var errNoIDs = errors.New("filter: Rebuild without ids; give it an iterator, such as that of Rows or Records")

// perLook is how many ids pass between two looks at the context, and between two calls of progress.
const perLook = 1024

// Rebuild puts in all ids of an iterator, in the current window, so that none is forgotten too
// early, and marks the filter as whole. It says maybe to all from the begin of the first call until
// then. progress, where it is not nil, is told now and then how many there have been.
//
// Begin the iteration after the filter was made, over all rows that are visible by then, and let
// every insert of this process go through Add first, also meanwhile: such ids are kept.
//
// After an error of the iterator or the end of ctx the filter goes on to say maybe; what was put in
// stays. Call it again: with all ids, or with those behind the last n, since to put an id in again
// changes nothing.
func (b *Bloom) Rebuild(ctx context.Context, ids iter.Seq2[[]byte, error], progress func(n int)) (n int, err error) {
	b.whole.set(false)
	n, err = each(ctx, ids, progress, func(id []byte) error {
		p := b.lock(id)
		p.add(id)
		p.mu.Unlock()
		return nil
	})
	if err == nil {
		b.whole.set(true)
	}
	return n, err
}

// MarkWhole says that everything that was inserted is in the filter: after [Bloom.ReadFrom] of a
// file that was written when the last process ended in order, or for a table that is empty.
func (b *Bloom) MarkWhole() { b.whole.set(true) }

// each goes through ids.
func each(ctx context.Context, ids iter.Seq2[[]byte, error], progress func(int), put func(id []byte) error) (n int, err error) {
	if ids == nil {
		return 0, errNoIDs
	}
	tell := func() {
		if progress != nil {
			progress(n)
		}
	}
	for id, err := range ids {
		if err == nil && n%perLook == 0 {
			tell()
			err = ctx.Err()
		}
		if err == nil {
			err = put(id)
		}
		if err != nil {
			return n, fmt.Errorf("filter: the rebuild stopped after %d ids, and the filter goes on to say maybe: call it again: %w", n, err)
		}
		n++
	}
	if err := ctx.Err(); err != nil { // an iterator may end early for it, and say nothing
		return n, fmt.Errorf("filter: the rebuild stopped after %d ids, and the filter goes on to say maybe: call it again: %w", n, err)
	}
	tell()
	return n, nil
}
