package memlock_test

import (
	"testing"

	"github.com/retrysafe/retrysafe/lock"
	"github.com/retrysafe/retrysafe/lock/locktest"
	"github.com/retrysafe/retrysafe/lock/memlock"
)

func TestSuite(t *testing.T) {
	t.Parallel()
	shared := memlock.New()
	locktest.Run(t, locktest.Config{Lists: true, Open: func(testing.TB) lock.Backend { return shared }})
}
