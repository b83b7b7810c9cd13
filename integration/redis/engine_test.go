package redis_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/redisstore"
	"github.com/retrysafe/retrysafe/storeapi"
)

// work counts its runs.
type work struct{ runs atomic.Int64 }

func (w *work) run(context.Context) (int64, error) { return w.runs.Add(1), nil }

// doubts returns the records in doubt, as an operator would list them.
func doubts(t *testing.T, s *redisstore.Store) (all []retrysafe.Record) {
	t.Helper()
	for after := ""; ; {
		page, err := s.List(t.Context(), storeapi.ListRequest{InDoubt: true, After: after, Limit: 1000})
		assert.NoError(t, err, "list")
		all = append(all, page.Records...)
		if after = page.Next; after == "" {
			return all
		}
	}
}

var errFaultWork = errors.New("the work failed")
