package redisnode_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/internal/redisnode"
	"github.com/retrysafe/retrysafe/redisclient"
)

// light is a client that can only run scripts.
type light struct{}

func (light) Eval(context.Context, redisclient.Call) redisclient.Reply {
	return redisclient.Reply{Value: "alone"}
}

// full is a client of primaries with these numbers of replicas. Each replica confirms.
type full struct {
	light
	replicas []int
}

func (f full) EvalWait(_ context.Context, _ redisclient.Call, n int, within time.Duration) (redisclient.Reply, int) {
	return redisclient.Reply{Value: fmt.Sprint(n, " within ", within)}, n - 1
}

func (f full) EachPrimary(ctx context.Context, each func(context.Context, func(context.Context, ...string) redisclient.Reply) error) error {
	for _, n := range f.replicas {
		err := each(ctx, func(_ context.Context, cmd ...string) redisclient.Reply {
			if cmd[0] == "CONFIG" {
				return redisclient.Reply{Value: []any{cmd[2], "noeviction"}}
			}
			return redisclient.Reply{Value: fmt.Sprintf("redis_version:7.2.0\r\nconnected_slaves:%d\r\n", n)}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func explain(err error) error { return fmt.Errorf("explained: %w", err) }

func TestPrimariesRefuseOptions(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]struct {
		client   redisclient.Client
		replicas int
		within   time.Duration
	}{
		"x: New needs a client": {}, "Replicas is -2": {full{}, -2, 0}, "ReplicaTime -1ns": {full{}, 0, -1}, "can WAIT": {light{}, 1, 0},
	} {
		_, err := redisnode.NewPrimaries("x", c.client, c.replicas, c.within, explain)
		assert.Contains(t, fmt.Sprint(err), want, "options")
	}
}

func TestPrimariesWaitForReplicas(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		replicas, acked, need int
		within                time.Duration
		value                 string
	}{
		"none": {0, 0, 0, 0, "alone"}, "two": {2, 1, 2, 0, "2 within 1s"}, "all": {redisnode.All, 2, 3, time.Minute, "3 within 1m0s"},
	} {
		p, err := redisnode.NewPrimaries("x", full{replicas: []int{1, 3, 2}}, c.replicas, c.within, explain)
		assert.NoError(t, err, "%s", name)
		nodes := 0
		asked, err := p.Inspect(t.Context(), false, "a record", func(_ context.Context, _ redisnode.Do, n *redisnode.Node) error {
			nodes += n.Replicas
			return nil
		})
		assert.NoError(t, err, "%s: Inspect", name)
		assert.True(t, asked && nodes == 6, "%s: all primaries are asked: %d", name, nodes)
		reply, acked, need := p.Eval(t.Context(), redisclient.Call{})
		assert.Equal(t, fmt.Sprint(reply.Value, acked, need), fmt.Sprint(c.value, c.acked, c.need), "%s: the reply", name)
	}
}

func TestPrimariesInspect(t *testing.T) {
	t.Parallel()
	inspect := func(c redisclient.Client, replicas int, f func(context.Context, redisnode.Do, *redisnode.Node) error) (bool, error) {
		p, err := redisnode.NewPrimaries("x", c, replicas, 0, explain)
		assert.NoError(t, err, "NewPrimaries")
		return p.Inspect(t.Context(), false, "a record", f)
	}
	asked, err := inspect(light{}, 0, nil)
	assert.True(t, !asked && err == nil, "a client that cannot ask: %v, %v", asked, err)
	_, err = inspect(full{replicas: []int{1, 0}}, redisnode.All, func(context.Context, redisnode.Do, *redisnode.Node) error { return nil })
	assert.Contains(t, fmt.Sprint(err), "x: Replicas All, and a primary has no replica", "All without replicas")
	own := errors.New("own")
	_, err = inspect(full{replicas: []int{1}}, 0, func(context.Context, redisnode.Do, *redisnode.Node) error { return own })
	assert.ErrorIs(t, err, own, "the package's own check")
}

func TestRefusal(t *testing.T) {
	t.Parallel()
	advice := map[string]string{"NOPERM": "allow SET"}
	for text, want := range map[string]string{
		"NOPERM no":   "x: the server refuses (allow SET): redis: NOPERM no",
		"READONLY no": "x: the server refuses (this server is a replica; name the primary, or let Sentinel or Cluster name it): redis: READONLY no",
		"ERR no":      "x: the server refuses: redis: ERR no",
	} {
		err := redisnode.Refusal("x", advice, fmt.Errorf("wrapped: %w", redisclient.Error(text)))
		assert.Equal(t, err.Error(), want, "the refusal")
		assert.ErrorIs(t, err, redisclient.Error(text), "the server's error")
	}
	assert.Equal(t, redisnode.Refusal("x", advice, errors.New("broken pipe")).Error(), "x: broken pipe", "an error of the connection")
}
