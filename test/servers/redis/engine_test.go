package redis_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/redisstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// work counts its runs.
type work struct{ runs atomic.Int64 }

func (w *work) run(context.Context) (int64, error) { return w.runs.Add(1), nil }

// listInDoubt returns the records in doubt, as an operator would list them.
func listInDoubt(t *testing.T, s *redisstore.Store) []retrysafe.Record {
	t.Helper()
	all, err := findInDoubt(t, s)
	assert.NoError(t, err, "list")
	return all
}

func findInDoubt(t *testing.T, s *redisstore.Store) (all []retrysafe.Record, err error) {
	t.Helper()
	for after := ""; ; {
		page, err := s.List(t.Context(), storeapi.ListRequest{InDoubt: true, After: after, Limit: 1000})
		all = append(all, page.Records...)
		if after = page.Next; err != nil || after == "" {
			return all, err
		}
	}
}

var errFaultWork = errors.New("the work failed")
