package cli

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/retrysafe/retrysafe/adapters/rueidisclient"
	"github.com/retrysafe/retrysafe/nearstore"
	"github.com/retrysafe/retrysafe/redisclient"
	"github.com/retrysafe/retrysafe/redisstore"
	"github.com/retrysafe/retrysafe/storeapi"
)

// openRedis connects to the servers of an address.
func openRedis(ctx context.Context, a *redisclient.Address, log *slog.Logger, s storeSettings) (storeapi.Store, func() error, error) {
	open := rueidisclient.Open
	if s.naive {
		open = openNaive
	}
	client, err := open(a)
	if err != nil {
		return nil, nil, err
	}
	end := client.Close
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	store, err := redisstore.New(ctx, client, &redisstore.Options{Replicas: s.acks, AllowEviction: s.allowEviction, Logger: log})
	if err != nil {
		_ = end()
		return nil, nil, inWordsOfTheFile{err}
	}
	if s.copies > 0 {
		return nearstore.New(store, &nearstore.Options{Bytes: s.copies}), end, nil
	}
	return store, end, nil
}

// openNaive connects so that each call has a connection of its own, to measure what the calls that
// [rueidisclient.Open] sends together are worth.
func openNaive(a *redisclient.Address) (*rueidisclient.Client, error) {
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

// inWordsOfTheFile is an error of a store that names the options of the configuration file instead
// of those of the package.
type inWordsOfTheFile struct{ error }

func (e inWordsOfTheFile) Unwrap() error { return e.error }

func (e inWordsOfTheFile) Error() string {
	return strings.NewReplacer("AllowEviction", "allow_eviction: true", "Replicas", "acks").Replace(e.error.Error())
}
