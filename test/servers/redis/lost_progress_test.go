package redis_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/test/servers/internal/servers"
	"github.com/retrysafe/retrysafe/test/servers/internal/teststores"
)

// TestRedisLostProgress cuts the connection at each call that saves a step, before and after the
// script has run, or lets the call arrive late. Each step is done once, and a later attempt
// continues after all of them.
func TestRedisLostProgress(t *testing.T) {
	t.Parallel()
	server := startKnowing(t)
	for adapter := range servers.RedisClients {
		for name, how := range map[string]servers.Cut{"request": servers.LoseRequest, "reply": servers.LoseReply, "late request": servers.LateRequest} {
			for hit := 1; hit <= 3; hit++ {
				t.Run(fmt.Sprint(adapter, " ", name, " of save ", hit), func(t *testing.T) {
					t.Parallel()
					l := newLossy(t, servers.StartRedisProxy(t, server.Addr), adapter, retrysafe.Policy{Lease: time.Minute, OnDoubt: retrysafe.Reexecute})
					l.p.SetHook(func(script string, n int) servers.Cut {
						if script == "extend" && n == hit {
							return how
						}
						return 0
					})
					did := map[string]int{}
					call := func(end error) (string, error) {
						res, err := retrysafe.Do(t.Context(), l.e, teststores.OrderKey(t.Name()), func(ctx context.Context) (string, error) {
							all := ""
							for _, step := range []string{"a", "b", "c"} {
								got, err := retrysafe.Step(ctx, step, func(context.Context) (string, error) {
									did[step]++
									return fmt.Sprint(step, did[step]), nil
								})
								if err != nil {
									return "", err
								}
								all += got
							}
							return all, end
						})
						return res.Value, err
					}
					_, err := call(errFaultWork)
					assert.ErrorIs(t, err, errFaultWork, "the first attempt")
					assert.True(t, l.p.Ran("extend") > 3, "a save was sent again: %d", l.p.Ran("extend"))
					l.p.Deliver() // after all that was saved since
					l.p.SetHook(nil)
					got, err := call(nil)
					assert.NoError(t, err, "the second attempt")
					assert.Equal(t, got, "a1b1c1", "answers of the steps")
				})
			}
		}
	}
}
