package redis_test

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
	"github.com/retrysafe/retrysafe/test/servers/internal/teststores"
	"github.com/retrysafe/retrysafe/test/servers/internal/waits"
)

// TestRedisIdleWorker: the cost of a worker's pass depends on what there is to do, and not on what
// was done.
func TestRedisIdleWorker(t *testing.T) {
	t.Parallel()
	for adapter, connect := range servers.RedisClients {
		t.Run(adapter, func(t *testing.T) {
			t.Parallel()
			server := servers.StartRedis(t)
			s := teststores.Redis(t, connect(t, "redis://"+server.Addr), nil)
			e := teststores.ShortEngine(t, s, retrysafe.Policy{OnDoubt: retrysafe.Reexecute})
			fail := true
			op := retrysafe.NewOperation(e, "charge", func(_ context.Context, in int) (int, error) {
				if in < 0 && fail {
					return 0, errFaultWork
				}
				return in, nil
			}, nil).Resumable()
			const done = 3000 // more than an index may have before it is cleaned without a worker
			for i := range done {
				_, err := op.Do(t.Context(), "", fmt.Sprint(i), i)
				assert.NoError(t, err, "call")
			}
			_, err := op.Do(t.Context(), "", "left", -1)
			assert.ErrorIs(t, err, errFaultWork, "a call that is left over")
			waits.Eventually(t, "without a worker the index is cleaned all the same", func() bool {
				n, err := strconv.Atoi(servers.RedisDo(server.Addr, "ZCARD", "rs:app/progress/fn/charge/"))
				return err == nil && n < done
			})

			w := retrysafe.NewWorker(&retrysafe.WorkerOptions{MinWait: time.Hour, MaxWait: time.Hour, Logger: slog.New(slog.DiscardHandler)}, op)
			pass := func() retrysafe.Passed {
				passed, err := w.Pass(t.Context())
				assert.NoError(t, err, "pass")
				return passed
			}
			assert.Equal(t, pass(), retrysafe.Passed{Found: 1, Early: 1}, "the first pass, which reads what has finished since")
			assert.Equal(t, servers.RedisDo(server.Addr, "ZCARD", "rs:app/progress/fn/charge/"), "1", "names in the index")
			servers.RedisDo(server.Addr, "CONFIG", "RESETSTAT")
			assert.Equal(t, pass(), retrysafe.Passed{Found: 1, Early: 1}, "an idle pass")
			stats := servers.RedisDo(server.Addr, "INFO", "commandstats")
			assert.True(t, !strings.Contains(stats, "cmdstat_scan:"), "an idle pass scans: %s", stats)
			for line := range strings.Lines(stats) {
				name, rest, _ := strings.Cut(line, ":calls=")
				var n int
				_, _ = fmt.Sscanf(rest, "%d", &n)
				assert.True(t, n < 20, "calls of %s in an idle pass: %d", name, n)
			}

			fail = false
			w = retrysafe.NewWorker(&retrysafe.WorkerOptions{MinWait: time.Nanosecond, Logger: slog.New(slog.DiscardHandler)}, op)
			assert.Equal(t, pass(), retrysafe.Passed{Found: 1, Finished: 1}, "a pass that may")
			assert.Equal(t, pass(), retrysafe.Passed{}, "the last pass")
			assert.Equal(t, servers.RedisDo(server.Addr, "EXISTS", "rs:app/progress/fn/charge/"), "0", "the index")
		})
	}
}
