package rueidisclient

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/redis/rueidis"

	"github.com/retrysafe/retrysafe/redisclient"
)

// Open connects to the servers of an address, with the settings that a store needs: the client
// itself never sends a command again, a call ends with its context even if the server hangs, and a
// connection that does not answer for 5 s is closed. Without a cluster, a call that no other is in
// flight with has a second connection. Close the client when it is not needed any more.
func Open(a *redisclient.Address) (*Client, error) {
	o, gather, err := clientOptions(a)
	if err != nil {
		return nil, err
	}
	r, err := rueidis.NewClient(o)
	if err != nil {
		return nil, fmt.Errorf("redis: cannot connect to %v: %w", a.Hosts, convertError(err))
	}
	return &Client{client: r, openOptions: &o, singleServer: gather}, nil
}

// clientOptions are those to connect with. gather reports whether the client has one server, so
// that it sends calls together itself.
func clientOptions(a *redisclient.Address) (o rueidis.ClientOption, gather bool, err error) {
	gather = a.Mode != redisclient.Cluster
	o = rueidis.ClientOption{
		InitAddress: a.Hosts, Username: a.Username, Password: a.Password, SelectDB: a.DB,
		DisableRetry: true, DisableCache: true,
		// With a lane, each command says whether others may share its connection (onSharedConn).
		AlwaysPipelining: true, DisableAutoPipelining: gather, DialCtxFn: dialForLane,
		// With one connection, each write has more calls in it, and so has each read of the server.
		PipelineMultiplex: -1,
		ConnWriteTimeout:  5 * time.Second, Dialer: net.Dialer{Timeout: 5 * time.Second, KeepAlive: time.Second},
	}
	if a.TLS {
		o.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	switch a.Mode {
	case redisclient.Single:
		o.ForceSingleClient = true
	case redisclient.Sentinel:
		o.Sentinel = rueidis.SentinelOption{
			MasterSet: a.Name, Username: a.Username, Password: a.Password, TLSConfig: o.TLSConfig, Dialer: o.Dialer,
		}
	case redisclient.Cluster:
		o.ShuffleInit = true
	default:
		return o, gather, errors.New("rueidisclient: the address has no mode; redisclient.ParseURL reads one")
	}
	return o, gather, nil
}

// At implements [redisclient.Dialer] for a client that [Open] has made. For any other client it
// returns errors.ErrUnsupported, since the options to connect with are unknown.
func (c *Client) At(ctx context.Context, addr string, f func(func(context.Context, ...string) redisclient.Reply) error) error {
	if c.openOptions == nil {
		return errors.ErrUnsupported
	}
	o := *c.openOptions
	o.DisableAutoPipelining = false
	o.InitAddress, o.ForceSingleClient, o.Sentinel, o.ShuffleInit = []string{addr}, true, rueidis.SentinelOption{}, false
	if end, ok := ctx.Deadline(); ok {
		left := max(time.Until(end), time.Millisecond)
		o.Dialer.Timeout, o.ConnWriteTimeout = min(left, o.Dialer.Timeout), min(left, o.ConnWriteTimeout)
	}
	one, err := rueidis.NewClient(o)
	if err != nil {
		return convertError(err)
	}
	defer one.Close()
	return f(func(ctx context.Context, cmd ...string) redisclient.Reply {
		return toReply(one.Do(ctx, one.B().Arbitrary(cmd...).Build()))
	})
}

// Close closes all connections. It returns nil.
func (c *Client) Close() error {
	c.client.Close()
	c.lane.close()
	return nil
}
