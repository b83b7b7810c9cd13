package redis_test

import (
	"context"
	"sync/atomic"

	"github.com/retrysafe/retrysafe/redisclient"
)

// counted counts the round trips.
type counted struct {
	redisclient.Client
	trips atomic.Int64
}

func (c *counted) Eval(ctx context.Context, call redisclient.Call) redisclient.Reply {
	c.trips.Add(1)
	return c.Client.Eval(ctx, call)
}

func (c *counted) EvalMany(ctx context.Context, calls []redisclient.Call) []redisclient.Reply {
	c.trips.Add(1)
	return c.Client.(redisclient.Pipeliner).EvalMany(ctx, calls) //nolint:errcheck,forcetypeassert // both adapters have it
}

func (c *counted) Subscribe(ctx context.Context, channel string, on func(payload string)) error {
	return c.Client.(redisclient.Subscriber).Subscribe(ctx, channel, on) //nolint:errcheck,forcetypeassert // both adapters have it
}

func (c *counted) EachPrimary(ctx context.Context, f func(context.Context, func(context.Context, ...string) redisclient.Reply) error) error {
	return c.Client.(redisclient.Nodes).EachPrimary(ctx, f) //nolint:errcheck,forcetypeassert // both adapters have it
}
