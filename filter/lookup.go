package filter

import (
	"context"
	"fmt"
)

// Prefilter is what all filters of this package can do for many ids at once. surelyNew has a place
// for each id. With an error nothing is surely new, and what was put in nobody knows.
type Prefilter interface {
	AddBatch(ctx context.Context, ids [][]byte) (surelyNew []bool, err error)
}

// Found is what [LookUp] has found.
type Found[T any] struct {
	// Rows are those that find has returned, by their id.
	Rows map[string]T
	// Asked is how many ids were looked up.
	Asked int
	// FilterErr is what was wrong with the filter, or nil. All ids were looked up then: it is no
	// reason to refuse the work, and one to look at.
	FilterErr error
}

// LookUp puts ids into the filter, before their work, and calls find for those that are maybe seen,
// at most size of them at once (zero: 1000) and not at all where there are none. find is the
// SELECT: it returns the rows that are there, by id, as one `WHERE id IN (…)` does.
//
// What is in no row is to be inserted, under a unique index: "surely new" is no promise that nobody
// else has inserted it. An error is that of find; the filter has the ids by then, so that a second
// try looks all of them up.
func LookUp[T any](ctx context.Context, f Prefilter, ids []string, size int, find func(ctx context.Context, maybe []string) (map[string]T, error)) (Found[T], error) {
	found := Found[T]{Rows: map[string]T{}}
	raw := make([][]byte, len(ids))
	for i, id := range ids {
		raw[i] = []byte(id)
	}
	surelyNew, err := f.AddBatch(ctx, raw)
	if err != nil || len(surelyNew) != len(ids) {
		if err == nil {
			err = fmt.Errorf("filter: AddBatch answered %d of %d ids", len(surelyNew), len(ids))
		}
		found.FilterErr, surelyNew = err, make([]bool, len(ids))
	}
	var maybe []string
	for i, id := range ids {
		if !surelyNew[i] {
			maybe = append(maybe, id)
		}
	}
	found.Asked = len(maybe)
	if size <= 0 {
		size = 1000
	}
	for len(maybe) > 0 {
		n := min(size, len(maybe))
		rows, err := find(ctx, maybe[:n:n])
		if err != nil {
			return found, err
		}
		for id, row := range rows {
			found.Rows[id] = row
		}
		maybe = maybe[n:]
	}
	return found, nil
}
