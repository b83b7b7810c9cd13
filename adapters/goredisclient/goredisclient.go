// Package goredisclient adapts github.com/redis/go-redis to redisclient, for programs that already
// have such a client: a single server, Sentinel (a failover client) or Cluster.
//
// go-redis sends a command again when a connection breaks (MaxRetries). That is safe here, since
// each script recognises a duplicate by its owner. But the counts of a tenant's limits may then be
// off by one key until its time has passed. MaxRetries -1 leaves retries to the engine. go-redis
// also waits for its own time-outs, whatever the context says. The adapter does not: a call returns
// when its context ends, and the rest of it ends with ReadTimeout.
package goredisclient

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/retrysafe/retrysafe/redisclient"
)

// Client implements [redisclient.Client] and every optional interface. It is safe for concurrent
// use.
type Client struct{ client redis.UniversalClient }

var (
	_ redisclient.Client     = (*Client)(nil)
	_ redisclient.Pipeliner  = (*Client)(nil)
	_ redisclient.Joiner     = (*Client)(nil)
	_ redisclient.Subscriber = (*Client)(nil)
	_ redisclient.Nodes      = (*Client)(nil)
	_ redisclient.Replicated = (*Client)(nil)
	_ redisclient.Dialer     = (*Client)(nil)
)

// New wraps a client, which the caller closes. It refuses a Ring: after a Ring has lost a server,
// it cannot tell which server has a key.
func New(r redis.UniversalClient) (*Client, error) {
	switch r.(type) {
	case *redis.Client, *redis.ClusterClient:
		return &Client{r}, nil
	}
	return nil, errors.New("goredisclient: use a *redis.Client or a *redis.ClusterClient")
}

// Eval implements [redisclient.Client].
func (c *Client) Eval(ctx context.Context, call redisclient.Call) redisclient.Reply {
	return waitWithContext(ctx, func() redisclient.Reply {
		r := toReply(c.client.EvalSha(ctx, call.Script.SHA1, call.Keys, scriptArgs(call)...))
		if r.UnknownScript() {
			r = toReply(c.client.Eval(ctx, call.Script.Source, call.Keys, scriptArgs(call)...))
		}
		return r
	}, failedReply)
}

// EvalMany implements [redisclient.Pipeliner].
func (c *Client) EvalMany(ctx context.Context, calls []redisclient.Call) []redisclient.Reply {
	return waitWithContext(ctx, func() []redisclient.Reply {
		return redisclient.SendMany(calls, !c.Joins(), func(calls []redisclient.Call, whole bool) []redisclient.Reply {
			p := c.client.Pipeline()
			cmds := make([]*redis.Cmd, len(calls))
			for i, call := range calls {
				if whole {
					cmds[i] = p.Eval(ctx, call.Script.Source, call.Keys, scriptArgs(call)...)
				} else {
					cmds[i] = p.EvalSha(ctx, call.Script.SHA1, call.Keys, scriptArgs(call)...)
				}
			}
			_, _ = p.Exec(ctx) // each command has its own error
			replies := make([]redisclient.Reply, len(calls))
			for i, cmd := range cmds {
				replies[i] = toReply(cmd)
			}
			return replies
		})
	}, func(err error) []redisclient.Reply {
		return slices.Repeat([]redisclient.Reply{failedReply(err)}, len(calls))
	})
}

// Joins implements [redisclient.Joiner].
func (c *Client) Joins() bool {
	_, cluster := c.client.(*redis.ClusterClient)
	return !cluster
}

// EvalWait implements [redisclient.Replicated].
func (c *Client) EvalWait(ctx context.Context, call redisclient.Call, replicas int, wait time.Duration) (r redisclient.Reply, acked int) {
	type both struct {
		r     redisclient.Reply
		acked int
	}
	got := waitWithContext(ctx, func() both {
		node, err := c.nodeFor(ctx, call.Keys[0])
		if err != nil {
			return both{redisclient.Reply{Err: convertError(err)}, 0}
		}
		run := func(script func(redis.Pipeliner) *redis.Cmd) both {
			// One pipeline is one connection. So would be node.Conn, but that has a data race
			// (v9.23).
			p := node.Pipeline()
			eval := script(p)
			acks := p.Do(ctx, "WAIT", replicas, wait.Milliseconds())
			_, _ = p.Exec(ctx)
			n, _ := acks.Int()
			return both{toReply(eval), n}
		}
		b := run(func(p redis.Pipeliner) *redis.Cmd {
			return p.EvalSha(ctx, call.Script.SHA1, call.Keys, scriptArgs(call)...)
		})
		if b.r.UnknownScript() {
			b = run(func(p redis.Pipeliner) *redis.Cmd {
				return p.Eval(ctx, call.Script.Source, call.Keys, scriptArgs(call)...)
			})
		}
		return b
	}, func(err error) both { return both{r: failedReply(err)} })
	return got.r, got.acked
}

// nodeFor returns the server that owns the key.
func (c *Client) nodeFor(ctx context.Context, key string) (*redis.Client, error) {
	if cluster, ok := c.client.(*redis.ClusterClient); ok {
		return cluster.MasterForKey(ctx, key)
	}
	return c.client.(*redis.Client), nil //nolint:errcheck,forcetypeassert // New has looked
}

// Subscribe implements [redisclient.Subscriber].
func (c *Client) Subscribe(ctx context.Context, channel string, on func(payload string)) error {
	sub := c.client.Subscribe(ctx, channel)
	defer func() { _ = sub.Close() }()
	// otherwise it would wait for its own time-out
	stop := context.AfterFunc(ctx, func() { _ = sub.Close() })
	defer stop()
	for {
		m, err := sub.Receive(ctx)
		if ended := ctx.Err(); ended != nil {
			return ended
		}
		if err != nil {
			return convertError(err)
		}
		switch m := m.(type) {
		case *redis.Subscription:
			on("")
		case *redis.Message:
			on(m.Payload)
		}
	}
}

// EachPrimary implements [redisclient.Nodes].
func (c *Client) EachPrimary(ctx context.Context, f func(context.Context, func(context.Context, ...string) redisclient.Reply) error) error {
	one := func(ctx context.Context, node *redis.Client) error {
		return f(ctx, commandFunc(node))
	}
	cluster, ok := c.client.(*redis.ClusterClient)
	if !ok {
		return one(ctx, c.client.(*redis.Client)) //nolint:errcheck,forcetypeassert // New has looked
	}
	// ForEachMaster calls f concurrently for all masters; EachPrimary promises one after the other.
	var nodes []*redis.Client
	found := make(chan *redis.Client, 1024)
	err := cluster.ForEachMaster(ctx, func(_ context.Context, node *redis.Client) error {
		found <- node
		return nil
	})
	close(found)
	for node := range found {
		nodes = append(nodes, node)
	}
	for _, node := range nodes {
		if err == nil {
			err = one(ctx, node)
		}
	}
	return err
}

// waitWithContext calls f. If ctx ends first, it returns ended(ctx's error), although f may still
// be running.
func waitWithContext[T any](ctx context.Context, f func() T, ended func(error) T) T {
	if ctx.Done() == nil {
		return f()
	}
	got := make(chan T, 1)
	go func() { got <- f() }()
	select {
	case v := <-got:
		return v
	case <-ctx.Done():
		return ended(ctx.Err())
	}
}

func failedReply(err error) redisclient.Reply { return redisclient.Reply{Err: err} }

func scriptArgs(call redisclient.Call) []any {
	all := make([]any, len(call.Args))
	for i, a := range call.Args {
		all[i] = a
	}
	return all
}

func toReply(cmd *redis.Cmd) redisclient.Reply {
	v, err := cmd.Result()
	if errors.Is(err, redis.Nil) {
		return redisclient.Reply{}
	}
	if m, ok := v.(map[any]any); ok { // from RESP3
		v = redisclient.Pairs(m)
	}
	return redisclient.Reply{Value: v, Err: convertError(err)}
}

// convertError separates a refusal of the server from an error of the connection.
func convertError(err error) error {
	var refused redis.Error
	if errors.As(err, &refused) {
		return redisclient.Error(refused.Error())
	}
	return err
}
