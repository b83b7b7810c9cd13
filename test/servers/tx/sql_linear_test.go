package tx_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/stores/storeapi"
	"github.com/retrysafe/retrysafe/test/servers/internal/linear"
	"github.com/retrysafe/retrysafe/test/servers/internal/shops"
	"github.com/retrysafe/retrysafe/test/servers/internal/sqltest"
	"github.com/retrysafe/retrysafe/test/servers/internal/teststores"
	"github.com/retrysafe/retrysafe/test/servers/internal/waits"
)

// bothOf sends each caller of a history to one of two processes.
type bothOf struct{ a, b storeapi.Store }

func (s bothOf) storeOf(caller int) storeapi.Store {
	if caller%2 == 0 {
		return s.a
	}
	return s.b
}

// randomFault is a fault that comes now and then: a step of the driver is skipped, or done with an
// error.
func randomFault(seed uint64) sqltest.Fault {
	var mu sync.Mutex
	rnd := rand.New(rand.NewPCG(seed, 7))
	return func(_ string, run func() error) error {
		mu.Lock()
		n := rnd.IntN(60)
		mu.Unlock()
		switch n {
		case 0:
			return sqltest.ErrCut
		case 1:
			return errors.Join(run(), sqltest.ErrCut)
		}
		return run()
	}
}

// TestSQLLinearizable: through two processes on one database, whose drivers lose statements and
// replies, some order of the calls for a key explains what its callers got.
func TestSQLLinearizable(t *testing.T) {
	t.Parallel()
	sqlLinearizable(t, 25)
}

func TestSoakSQLLinearizable(t *testing.T) {
	t.Parallel()
	rounds := 3
	if waits.LongSoak() {
		rounds = 1_000
	}
	sqlLinearizable(t, rounds)
}

func sqlLinearizable(t *testing.T, rounds int) {
	t.Helper()
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		path := sqltest.NewFile(t)
		process := func(seed uint64) storeapi.Store {
			db, set := sqltest.OpenFaulty(t, sqltest.SQLiteDSN(path))
			db.SetMaxOpenConns(4)
			s := teststores.SQLite(t, db, nil)
			set(randomFault(seed))
			return s
		}
		linearRounds(t, rounds, process)
	})
	shops.EachServer(t, func(t *testing.T, server shops.Database) {
		t.Helper()
		server.Shop(t)
		linearRounds(t, rounds, func(seed uint64) storeapi.Store {
			shop, set, err := server.FaultyShop()
			assert.NoError(t, err, "a process")
			t.Cleanup(func() { _ = shop.DB.Close() })
			shop.DB.SetMaxOpenConns(8)
			set(randomFault(seed))
			return shop.Store
		})
	})
}

func linearRounds(t *testing.T, rounds int, process func(seed uint64) storeapi.Store) {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	s := bothOf{process(seed), process(seed + 1)}
	calls, unknowns, undecided := 0, 0, 0
	for round := range rounds {
		ops, unknown := linear.History(t, s.storeOf, teststores.OrderStoreKey(fmt.Sprint(round)), seed+uint64(round), func() int64 { return 0 })
		calls, unknowns = calls+len(ops), unknowns+unknown
		switch porcupine.CheckOperationsTimeout(linear.Model, ops, time.Minute) {
		case porcupine.Illegal:
			for _, op := range ops {
				t.Logf("%9d-%9d caller %d: %s", op.Call, op.Return, op.ClientId, linear.Described(op))
			}
			t.Fatalf("seed %d: no order of these calls explains what their callers were told", seed)
		case porcupine.Unknown:
			undecided++
		}
	}
	t.Logf("seed %d: %d histories, %d calls, %d of them without an answer, %d histories not decided in time", seed, rounds, calls, unknowns, undecided)
	assert.True(t, undecided <= rounds/5, "nearly all histories are decided")
	assert.True(t, unknowns > 0 || rounds < 10, "some calls have no answer")
}
