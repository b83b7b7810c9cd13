package retrysafe_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
)

// undecodable is an input whose decoding panics.
type undecodable struct{ N int }

func (b *undecodable) UnmarshalJSON([]byte) error { panic("this build cannot read that") }

// decodable is the same input in another build.
type decodable struct{ N int }

// TestWorkerWhoseCodecPanics: the attempt is finished, and Shutdown has nothing to wait for.
func TestWorkerWhoseCodecPanics(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStore()
		p := retrysafe.Policy{Lease: 10 * time.Second, OnDoubt: retrysafe.Reexecute}
		e := retrysafe.New(s, &retrysafe.Options{Policy: p, Sweep: -1, Secret: []byte("a secret of tests")})
		before := retrysafe.NewOperation(e, "op", func(context.Context, decodable) (string, error) { return "", errors.New("not now") }, nil).Resumable()
		_, err := before.Do(ctx, "ann", "1", decodable{1})
		assert.True(t, err != nil, "the first fails")
		time.Sleep(time.Minute)
		op := retrysafe.NewOperation(e, "op", func(context.Context, undecodable) (string, error) { return "", errors.New("not now") }, nil).Resumable()
		w := retrysafe.NewWorker(nil, op)
		got, err := w.Pass(ctx)
		assert.NoError(t, err, "Pass")
		assert.Equal(t, got.Unfinished, 1, "unfinished")
		rec := lookup(t, e, retrysafe.Key{Tenant: "ann", Operation: "op", ID: "1"})
		assert.Equal(t, rec.State, retrysafe.StateReleased, "state after the pass")
		time.Sleep(10 * time.Minute)
		end, cancel := context.WithTimeout(ctx, time.Hour)
		defer cancel()
		assert.NoError(t, e.Shutdown(end), "Shutdown long after")
	})
}
