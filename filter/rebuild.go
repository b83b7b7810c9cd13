package filter

import (
	"context"
	"errors"
	"fmt"
	"iter"
)

// errNoIDs means that the iterator is nil.
var errNoIDs = errors.New("filter: Rebuild without ids; give it an iterator, such as that of Rows or Records")

// idsPerCheck is how many ids pass between two checks of the context, and between two calls of
// progress.
const idsPerCheck = 1024

// Rebuild adds all ids of an iterator to the current window, so that none is forgotten too early,
// and then marks the filter as whole. From the beginning of the first call until then, the filter
// says maybe to every id. progress, if not nil, is called now and then with the number of ids so
// far.
//
// Begin the iteration after the filter was created, over all rows that are visible then. Every
// insert of this process must call Add first, also during the rebuild; those ids are kept.
//
// After an error of the iterator, or if ctx ends, the filter continues to say maybe, and keeps the
// ids that were added. Call Rebuild again, with all ids or with those after the first n: adding an
// id again changes nothing.
func (b *Bloom) Rebuild(ctx context.Context, ids iter.Seq2[[]byte, error], progress func(n int)) (n int, err error) {
	b.whole.set(false)
	n, err = eachID(ctx, ids, progress, func(id []byte) error {
		at := b.shape.placeOf(id)
		m, p := b.shape.maskOf(at.bits), b.currentPart(at)
		p.mu.Lock()
		p.add(at, &m)
		p.mu.Unlock()
		return nil
	})
	if err == nil {
		b.whole.set(true)
	}
	return n, err
}

// MarkWhole says that all inserted ids are in the filter: after [Bloom.ReadFrom] of a file that the
// last process wrote at its clean shutdown, or for an empty table.
func (b *Bloom) MarkWhole() { b.whole.set(true) }

// eachID calls put for each id.
func eachID(ctx context.Context, ids iter.Seq2[[]byte, error], progress func(int), put func(id []byte) error) (n int, err error) {
	if ids == nil {
		return 0, errNoIDs
	}
	tell := func() {
		if progress != nil {
			progress(n)
		}
	}
	for id, err := range ids {
		if err == nil && n%idsPerCheck == 0 {
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
	if err := ctx.Err(); err != nil { // an iterator may end early because of ctx, without an error
		return n, fmt.Errorf("filter: the rebuild stopped after %d ids, and the filter goes on to say maybe: call it again: %w", n, err)
	}
	tell()
	return n, nil
}
