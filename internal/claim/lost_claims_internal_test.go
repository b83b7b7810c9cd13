package claim

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe/internal/lifetime"
	"github.com/retrysafe/retrysafe/internal/storecall"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

type awayStore struct{ storeapi.Store }

var errAway = errors.New("away")

func (awayStore) Acquire(context.Context, storeapi.AcquireRequest) (storeapi.Acquired, error) {
	return storeapi.Acquired{}, errAway
}

func (awayStore) Lookup(ctx context.Context, k storeapi.StoreKey) (storeapi.Record, error) {
	<-time.After(time.Second) // the server takes its time to fail
	return storeapi.Record{}, errAway
}

// TestClaimsAreBounded: the claim that is being looked at counts, so that there is never one too
// many.
func TestClaimsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lapsed := 0
		life := lifetime.New()
		c := New(storecall.New(awayStore{}, nil, slog.Default()), life, func(context.Context, storeapi.StoreKey) { lapsed++ })
		g := &c.lostClaims
		add := func() {
			now := time.Now()
			g.giveBack(&storeapi.AcquireRequest{Key: storeapi.StoreKey{Namespace: "n", Layer: "fn", Key: storeapi.Key{Operation: "o", ID: "x"}}}, nil, now.Add(-time.Hour), 0, nil)
		}
		for range maxClaims {
			add()
		}
		time.Sleep(200 * time.Millisecond) // one is popped, and looked at
		synctest.Wait()
		add() // fills the place of the one that is being looked at
		time.Sleep(5 * time.Second)
		synctest.Wait()
		for range maxClaims {
			add()
		}
		g.mu.Lock()
		n := g.count
		g.mu.Unlock()
		if n > maxClaims {
			t.Errorf("%d claims wait, at most %d should", n, maxClaims)
		}
		if lapsed < maxClaims {
			t.Errorf("%d claims were told to expire, at least %d should", lapsed, maxClaims)
		}
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = life.End(ctx)
	})
}
