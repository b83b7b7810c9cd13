package filter

import (
	"context"
	"fmt"
)

// Prefilter adds many ids at once; all filters of this package implement it. surelyNew has one
// element for each id. After an error no id is surely new, and it is unknown which ids were added.
type Prefilter interface {
	AddBatch(ctx context.Context, ids [][]byte) (surelyNew []bool, err error)
}

// Found is the result of [LookUp].
type Found[T any] struct {
	// Rows are the rows that find has returned, by id.
	Rows map[string]T
	// Asked is how many ids were looked up.
	Asked int
	// FilterErr is the error of the filter, or nil. If it is set, all ids were looked up. It is no
	// reason to refuse the work, but look into it.
	FilterErr error
}

// LookUp adds ids to the filter, before their work, and calls find for those that are maybe seen:
// at most size of them at once (zero: 1000), and not at all if there are none. find is the SELECT:
// it returns the existing rows by id, like `WHERE id IN (…)`.
//
// Insert the ids that have no row, under a unique index: "surely new" does not exclude that another
// process has inserted it. An error is one of find. The filter has the ids by then, so a second try
// looks all of them up.
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
