package check_test

import (
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/retrysafe/retrysafe/check/internal/servers"
)

// TestSoakRightShops examines each right shop again and again, each time in a new server: first
// alone, and then beside four busy loops. What is found must not depend on luck or on the machine's
// speed.
// RETRYSAFE_SOAK=long does it ten times for each shop, else once for one.
func TestSoakRightShops(t *testing.T) {
	times, shops := 1, servers.Right()[:1]
	if os.Getenv("RETRYSAFE_SOAK") == "long" {
		times, shops = 10, servers.Right()
	}
	for _, busy := range []bool{false, true} {
		name := "quiet"
		if busy {
			name = "busy"
		}
		t.Run(name, func(t *testing.T) {
			if busy {
				defer spinCPU(4)()
			}
			for i := range times {
				t.Run(strconv.Itoa(i+1), func(t *testing.T) { assertAllRight(t, shops) })
			}
		})
	}
}

// spinCPU starts busy loops and returns what ends them.
func spinCPU(loops int) (end func()) {
	var stop atomic.Bool
	var all sync.WaitGroup
	for range loops {
		all.Go(func() {
			for turns := 0; !stop.Load(); {
				turns++
			}
		})
	}
	return func() {
		stop.Store(true)
		all.Wait()
	}
}
