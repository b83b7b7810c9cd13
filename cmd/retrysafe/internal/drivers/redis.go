package drivers

import (
	"crypto/tls"
	"fmt"

	"github.com/redis/rueidis"

	"github.com/retrysafe/retrysafe/adapters/rueidisclient"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
	"github.com/retrysafe/retrysafe/redisclient"
)

func connectRedis(a *redisclient.Address, alone bool) (cli.RedisClient, error) {
	if alone {
		return connectAlone(a)
	}
	return rueidisclient.Open(a)
}

// connectAlone connects so that each call has a connection of its own, to measure what the calls
// that [rueidisclient.Open] sends together are worth.
func connectAlone(a *redisclient.Address) (*rueidisclient.Client, error) {
	o := rueidis.ClientOption{
		InitAddress: a.Hosts, Username: a.Username, Password: a.Password, SelectDB: a.DB,
		DisableRetry: true, DisableCache: true, DisableAutoPipelining: true,
		ForceSingleClient: a.Mode == redisclient.Single,
	}
	if a.TLS {
		o.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if a.Mode == redisclient.Sentinel {
		o.Sentinel = rueidis.SentinelOption{MasterSet: a.Name, Username: a.Username, Password: a.Password, TLSConfig: o.TLSConfig}
	}
	r, err := rueidis.NewClient(o)
	if err != nil {
		return nil, fmt.Errorf("redis: cannot connect to %v: %w", a.Hosts, err)
	}
	return rueidisclient.New(r), nil
}
