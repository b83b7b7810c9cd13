package storeapi_test

import (
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// TestAge: a clock that was set back makes no age negative, or lists by age would lack the record.
func TestAge(t *testing.T) {
	t.Parallel()
	at := time.Unix(1_800_000_000, 0)
	for _, c := range []struct{ now, since, updated, want time.Duration }{
		{now: time.Hour, since: time.Minute, updated: 2 * time.Minute, want: 59 * time.Minute},
		{now: time.Hour, updated: 2 * time.Minute, want: 58 * time.Minute},
		{now: time.Minute, since: time.Hour, updated: time.Second},
		{now: time.Minute, updated: time.Hour},
	} {
		r := storeapi.Record{Now: at.Add(c.now), Updated: at.Add(c.updated)}
		if c.since != 0 {
			r.DoubtSince = at.Add(c.since)
		}
		assert.Equal(t, r.Age(), c.want, "age of %+v", c)
	}
}
