package goredisclient

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/retrysafe/retrysafe/redisclient"
)

// At implements [redisclient.Dialer].
func (c *Client) At(_ context.Context, addr string, f func(func(context.Context, ...string) redisclient.Reply) error) error {
	o := c.dialOptions()
	o.Addr, o.PoolSize, o.MaxRetries, o.DialerRetries = addr, 1, -1, 1
	one := redis.NewClient(o)
	defer func() { _ = one.Close() }()
	return f(commandFunc(one))
}

// dialOptions returns the client's identity and how it connects.
func (c *Client) dialOptions() *redis.Options {
	if cluster, ok := c.client.(*redis.ClusterClient); ok {
		o := cluster.Options()
		return &redis.Options{
			Dialer: o.Dialer, DialTimeout: o.DialTimeout, TLSConfig: o.TLSConfig, Protocol: o.Protocol,
			Username: o.Username, Password: o.Password, CredentialsProvider: o.CredentialsProvider,
			CredentialsProviderContext: o.CredentialsProviderContext, StreamingCredentialsProvider: o.StreamingCredentialsProvider,
		}
	}
	o := c.client.(*redis.Client).Options() //nolint:errcheck,forcetypeassert // New has looked
	own := &redis.Options{
		Dialer: o.Dialer, DialTimeout: o.DialTimeout, TLSConfig: o.TLSConfig, Protocol: o.Protocol,
		Username: o.Username, Password: o.Password, CredentialsProvider: o.CredentialsProvider,
		CredentialsProviderContext: o.CredentialsProviderContext, StreamingCredentialsProvider: o.StreamingCredentialsProvider,
	}
	if o.Addr == failoverAddr {
		own.Dialer = nil // the failover client's dialer always connects to the primary
	}
	return own
}

// failoverAddr is the address in the options of a client that asks Sentinel for the primary.
const failoverAddr = "FailoverClient"

// commandFunc returns a function that sends commands to one server.
func commandFunc(node *redis.Client) func(context.Context, ...string) redisclient.Reply {
	return func(ctx context.Context, cmd ...string) redisclient.Reply {
		words := make([]any, len(cmd))
		for i, w := range cmd {
			words[i] = w
		}
		return waitWithContext(ctx, func() redisclient.Reply { return toReply(node.Do(ctx, words...)) }, failedReply)
	}
}
