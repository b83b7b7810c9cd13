package filter_test

import (
	"context"
	"strconv"
	"testing"

	"github.com/retrysafe/retrysafe/filter"
	"github.com/retrysafe/retrysafe/internal/assert"
)

// TestLookUp: only ids that may have been seen are looked up, in batches. If the filter fails, all
// ids are.
func TestLookUp(t *testing.T) {
	t.Parallel()
	table := map[string]int{}
	b := newBloom(t, filter.Options{Empty: true, Items: 20_000})
	var ids []string
	for i := range 10_000 {
		ids = append(ids, "order "+strconv.Itoa(i))
	}
	largest, calls := 0, 0
	find := func(_ context.Context, maybe []string) (map[string]int, error) {
		calls++
		largest = max(largest, len(maybe))
		rows := map[string]int{}
		for _, id := range maybe {
			if n, ok := table[id]; ok {
				rows[id] = n
			}
		}
		return rows, nil
	}
	found, err := filter.LookUp(t.Context(), b, ids, 50, find)
	assert.NoError(t, err, "new ids")
	assert.True(t, len(found.Rows) == 0 && found.Asked <= 100 && largest <= 50 && found.FilterErr == nil, "99 %% are spared: %d asked", found.Asked)
	for i, id := range ids {
		table[id] = i
	}
	calls = 0
	found, err = filter.LookUp(t.Context(), b, ids, 0, find)
	assert.NoError(t, err, "known ids")
	assert.True(t, found.Asked == 10_000 && calls == 10 && largest == 1000, "%d asked, in %d calls", found.Asked, calls)
	assert.Equal(t, found.Rows, table, "rows")

	found, err = filter.LookUp(t.Context(), b, []string{"new", "new"}, 0, find)
	assert.True(t, err == nil && found.Asked == 1, "an id that stands twice is new once: %d asked", found.Asked)
	for name, f := range map[string]filter.Prefilter{"fails": answers{nil, errSource}, "says too little": answers{[]bool{true}, nil}} {
		found, err = filter.LookUp(t.Context(), f, ids, 0, find)
		assert.True(t, err == nil && found.FilterErr != nil && found.Asked == len(ids) && len(found.Rows) == len(ids), "%s: %d asked, %v", name, found.Asked, err)
	}
	_, err = filter.LookUp(t.Context(), b, ids, 0, func(context.Context, []string) (map[string]int, error) { return nil, errSource })
	assert.ErrorIs(t, err, errSource, "an error of find")
	found, err = filter.LookUp(t.Context(), b, nil, 0, find)
	assert.True(t, err == nil && found.Asked == 0, "no ids")
}

type answers struct {
	surelyNew []bool
	err       error
}

func (a answers) AddBatch(context.Context, [][]byte) ([]bool, error) { return a.surelyNew, a.err }
