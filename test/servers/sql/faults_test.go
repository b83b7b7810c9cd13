package sql_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/sqlstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
	"github.com/retrysafe/retrysafe/test/servers/internal/teststores"
)

// chargeIsNotRepeated loses the replies to a charge's BEGIN and to its COMMIT.
func chargeIsNotRepeated(t *testing.T, s *sqlstore.Store, proxy *servers.SQLProxy, begins, commits string) {
	t.Helper()
	charge := func() (storeapi.Charged, error) {
		return s.Charge(t.Context(), storeapi.ChargeRequest{Namespace: "app", Keys: 1, For: time.Hour, Limits: storeapi.Limits{Live: 3}})
	}
	proxy.Set(begins, servers.LoseReply)
	_, err := charge()
	assert.NoError(t, err, "a charge whose beginning was lost")
	proxy.Set(commits, servers.LoseReply)
	_, err = charge()
	assert.True(t, err != nil && !errors.Is(err, retrysafe.ErrTooLate), "a charge whose commit was not answered: %v", err)
	third, err := charge()
	assert.NoError(t, err, "the third")
	assert.True(t, third.OK, "the third is let in")
	fourth, err := charge()
	assert.NoError(t, err, "the fourth")
	assert.True(t, !fourth.OK, "the fourth is refused")
}

// crashUnderLoad crashes the server again and again under callers that retry.
func crashUnderLoad(t *testing.T, stores []*sqlstore.Store, crash func()) {
	t.Helper()
	const callers, keys = 4, 60
	var next atomic.Int64
	wins := make([]atomic.Int64, keys)
	var all sync.WaitGroup
	for c := range callers {
		all.Go(func() {
			for i := range keys {
				next.Store(max(next.Load(), int64(i)))
				win, err := claimAndComplete(t.Context(), stores[c%2], fmt.Sprint(i), fmt.Sprint(i, " by ", c))
				if win {
					wins[i].Add(1)
				}
				if err != nil {
					t.Errorf("key %d: %v", i, err)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	for n := range int64(3) {
		for next.Load() < (n+1)*keys/4 {
			select {
			case <-done:
			case <-time.After(time.Millisecond):
			}
		}
		crash()
	}
	<-done
	for i := range wins {
		assert.Equal(t, wins[i].Load(), int64(1), "wins of key %d", i)
		rec, err := stores[0].Lookup(t.Context(), teststores.Request(fmt.Sprint(i)).Key)
		assert.NoError(t, err, "Lookup")
		assert.Equal(t, fmt.Sprint(rec.State, rec.Attempt), fmt.Sprint(retrysafe.StateCompleted, 1), "key %d", i)
	}
}
