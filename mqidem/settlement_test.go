package mqidem_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/mqidem"
)

var errStep = errors.New("the step failed")

// steps records the steps that a settlement makes.
type steps struct {
	log   []string
	fails map[string]error
}

func (s *steps) step(name string) func(context.Context) error {
	return func(context.Context) error {
		s.log = append(s.log, name)
		return s.fails[name]
	}
}

func (s *steps) allSteps() mqidem.SettleSteps {
	return mqidem.SettleSteps{Check: s.step("check"), Write: s.step("write"), Answer: s.step("answer")}
}

func TestSettlement(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		fails, log string
		after      error // of the second call
	}{
		{"", "check write answer", mqidem.ErrSettled},
		{"check", "check check write answer", nil},
		{"write", "check write check write answer", nil},
		{"answer", "check write answer check answer", nil},
	} {
		s, did := mqidem.NewSettlement(0, nil), &steps{fails: map[string]error{c.fails: errStep}}
		err := s.Settle(t.Context(), did.allSteps())
		assert.Equal(t, err != nil, c.fails != "", "a failure of %q: %v", c.fails, err)
		did.fails = nil
		assert.ErrorIs(t, s.Settle(t.Context(), did.allSteps()), c.after, "the call after a failure of %q", c.fails)
		assert.Equal(t, strings.Join(did.log, " "), c.log, "steps, of which %q fails", c.fails)
		assert.ErrorIs(t, s.Settle(t.Context(), did.allSteps()), mqidem.ErrSettled, "the last call")
	}
}

func TestSettlementContext(t *testing.T) {
	t.Parallel()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	s, did := mqidem.NewSettlement(0, nil), &steps{}
	assert.ErrorIs(t, s.Settle(ended, did.allSteps()), context.Canceled, "Settle whose context has ended")
	assert.Equal(t, len(did.log), 0, "steps")
	// A call that waits for another one ends with its context.
	err := s.Settle(t.Context(), mqidem.SettleSteps{Answer: func(context.Context) error {
		waiting, stop := context.WithCancel(t.Context())
		time.AfterFunc(time.Millisecond, stop)
		return s.Settle(waiting, did.allSteps())
	}})
	assert.ErrorIs(t, err, context.Canceled, "Settle beside another one")
}

// TestSettlementGivesBack: a delivery whose copy could not be written is given back once, unless
// the caller tries again in time.
func TestSettlementGivesBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var given atomic.Int64
		did := &steps{fails: map[string]error{"write": errStep}}
		s := mqidem.NewSettlement(time.Minute, func() { given.Add(1) })
		for range 3 {
			assert.ErrorIs(t, s.Settle(t.Context(), did.allSteps()), errStep, "Settle")
			time.Sleep(50 * time.Second)
			assert.Equal(t, given.Load(), 0, "given back while it is tried again")
		}
		time.Sleep(time.Hour)
		assert.Equal(t, given.Load(), 1, "given back")
		assert.ErrorIs(t, s.Settle(t.Context(), did.allSteps()), mqidem.ErrStale, "Settle after that")

		given.Store(0)
		did.fails = map[string]error{"write": errStep}
		s = mqidem.NewSettlement(time.Minute, func() { given.Add(1) })
		assert.ErrorIs(t, s.Settle(t.Context(), did.allSteps()), errStep, "Settle")
		did.fails = nil
		assert.NoError(t, s.Settle(t.Context(), did.allSteps()), "Settle again")
		time.Sleep(time.Hour)
		assert.Equal(t, given.Load(), 0, "given back although it is settled")
	})
}
