// Package rueidisclient adapts github.com/redis/rueidis to redisclient. rueidis sends the calls of
// many goroutines in one write and works with single servers, Sentinel and Cluster.
package rueidisclient

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/retrysafe/retrysafe/redisclient"
)

// Client implements [redisclient.Client] and every optional interface. It is safe for concurrent
// use.
type Client struct {
	client       rueidis.Client
	openOptions  *rueidis.ClientOption // set by Open; else nil
	singleServer bool                  // one server: concurrent calls are sent in one write
	lane         lane
	nextBatch    callBatch
	subs         subscribers
}

var (
	_ redisclient.Client     = (*Client)(nil)
	_ redisclient.Pipeliner  = (*Client)(nil)
	_ redisclient.Joiner     = (*Client)(nil)
	_ redisclient.Subscriber = (*Client)(nil)
	_ redisclient.Nodes      = (*Client)(nil)
	_ redisclient.Replicated = (*Client)(nil)
	_ redisclient.Dialer     = (*Client)(nil)
)

// New wraps a client, which the caller closes. Create it with DisableRetry: the callers of the
// store repeat calls themselves, and they know when that is safe.
func New(r rueidis.Client) *Client { return &Client{client: r} }

// Eval implements [redisclient.Client].
func (c *Client) Eval(ctx context.Context, call redisclient.Call) redisclient.Reply {
	r := c.eval(ctx, call)
	if r.UnknownScript() {
		r = toReply(c.client.Do(ctx, c.onSharedConn(c.buildCommand(call, true))))
	}
	return r
}

func (c *Client) eval(ctx context.Context, call redisclient.Call) redisclient.Reply {
	if !c.singleServer || call.Alone {
		return toReply(c.client.Do(ctx, c.onSharedConn(c.buildCommand(call, false))))
	}
	defer c.lane.inFlight.Add(-1)
	if c.lane.inFlight.Add(1) == 1 {
		if r, ok := c.callAlone(ctx, call); ok {
			return r
		}
	}
	return c.sendWithOthers(ctx, call)
}

// EvalMany implements [redisclient.Pipeliner].
func (c *Client) EvalMany(ctx context.Context, calls []redisclient.Call) []redisclient.Reply {
	return redisclient.SendMany(calls, !c.Joins(), func(calls []redisclient.Call, whole bool) []redisclient.Reply {
		cmds := make(rueidis.Commands, len(calls))
		for i, call := range calls {
			cmds[i] = c.onSharedConn(c.buildCommand(call, whole))
		}
		replies := make([]redisclient.Reply, len(calls))
		for i, r := range c.client.DoMulti(ctx, cmds...) {
			replies[i] = toReply(r)
		}
		return replies
	})
}

// Joins implements [redisclient.Joiner].
func (c *Client) Joins() bool { return c.client.Mode() != rueidis.ClientModeCluster }

// EvalWait implements [redisclient.Replicated].
func (c *Client) EvalWait(ctx context.Context, call redisclient.Call, replicas int, within time.Duration) (r redisclient.Reply, acked int) {
	run := func(whole bool) {
		err := c.client.Dedicated(func(one rueidis.DedicatedClient) error {
			wait := c.client.B().Wait().Numreplicas(int64(replicas)).Timeout(within.Milliseconds()).Build()
			got := one.DoMulti(ctx, c.buildCommand(call, whole), wait)
			r = toReply(got[0])
			if n, err := got[1].AsInt64(); err == nil {
				acked = int(n)
			}
			return nil
		})
		if err != nil {
			r = redisclient.Reply{Err: convertError(err)}
		}
	}
	if run(false); r.UnknownScript() {
		run(true)
	}
	return r, acked
}

// EachPrimary implements [redisclient.Nodes].
func (c *Client) EachPrimary(ctx context.Context, f func(context.Context, func(context.Context, ...string) redisclient.Reply) error) error {
	for _, node := range c.client.Nodes() {
		do := func(ctx context.Context, cmd ...string) redisclient.Reply {
			return toReply(node.Do(ctx, c.onSharedConn(node.B().Arbitrary(cmd...).Build())))
		}
		primary, err := isPrimary(ctx, do, c.Joins())
		if err != nil {
			return err
		}
		if !primary {
			continue
		}
		if err := f(ctx, do); err != nil {
			return err
		}
	}
	return nil
}

// isPrimary asks a server whether it is a primary, by ROLE, or else by INFO. Without a cluster
// there is one server, which counts as the primary if it answers neither.
func isPrimary(ctx context.Context, do func(context.Context, ...string) redisclient.Reply, alone bool) (bool, error) {
	role := do(ctx, "ROLE")
	if parts, ok := role.Value.([]any); ok && len(parts) > 0 {
		return parts[0] == "master", nil
	}
	if !notAllowed(role.Err) {
		return false, role.Err
	}
	info := do(ctx, "INFO", "replication")
	if text, ok := info.Value.(string); ok {
		return strings.Contains(text, "role:master"), nil
	}
	if alone && notAllowed(info.Err) {
		return true, nil
	}
	return false, info.Err
}

// notAllowed reports whether the server does not let this user run a command, or does not have it.
func notAllowed(err error) bool {
	refused, ok := errors.AsType[redisclient.Error](err)
	return ok && (refused.Code() == "NOPERM" || refused.Code() == "ERR")
}

// buildCommand returns the command. If whole is set, it sends the script's source instead of its
// digest.
func (c *Client) buildCommand(call redisclient.Call, whole bool) rueidis.Completed {
	name, script := "EVALSHA", call.Script.SHA1
	if whole {
		name, script = "EVAL", call.Script.Source
	}
	cmd := c.client.B().Arbitrary(name, script, strconv.Itoa(len(call.Keys)))
	if c.singleServer {
		// Keys would compute a slot, which one server does not need
		return cmd.Args(call.Keys...).Args(call.Args...).Build()
	}
	return cmd.Keys(call.Keys...).Args(call.Args...).Build()
}

// onSharedConn sends a command on the connection that all share. Without it, a client that has a
// lane would use the lane's.
func (c *Client) onSharedConn(cmd rueidis.Completed) rueidis.Completed {
	if c.singleServer {
		return cmd.ToPipe()
	}
	return cmd
}

func toReply(r rueidis.RedisResult) redisclient.Reply {
	v, err := r.ToAny()
	if rueidis.IsRedisNil(err) {
		return redisclient.Reply{}
	}
	if m, ok := v.(map[string]any); ok { // from RESP3
		v = redisclient.Pairs(m)
	}
	if _, refused := rueidis.IsRedisErr(err); refused {
		// the error lacks the code ERR, and the message has it
		m, _ := r.ToMessage()
		if text, _ := m.ToString(); text != "" {
			return redisclient.Reply{Err: redisclient.Error(text)}
		}
	}
	return redisclient.Reply{Value: v, Err: convertError(err)}
}

// convertError separates a refusal of the server from an error of the connection. rueidis leaves
// out the code ERR, so a refusal that begins with another word than a code gets it back.
func convertError(err error) error {
	e, ok := rueidis.IsRedisErr(err)
	if !ok {
		return err
	}
	text := e.Error()
	if code, _, _ := strings.Cut(text, " "); strings.Trim(code, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" {
		text = "ERR " + text
	}
	return redisclient.Error(text)
}
