package cli

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe/redisclient"
	"github.com/retrysafe/retrysafe/stores/nearstore"
	"github.com/retrysafe/retrysafe/stores/redisstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// openRedis connects to the servers of an address.
func openRedis(ctx context.Context, a *redisclient.Address, log *slog.Logger, s storeSettings) (storeapi.Store, func() error, error) {
	client, err := connectRedis(a, s.naive)
	if err != nil {
		return nil, nil, err
	}
	end := client.Close
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	store, err := redisstore.New(ctx, client, &redisstore.Options{Replicas: s.acks, AllowEviction: s.allowEviction, Logger: log})
	if err != nil {
		_ = end()
		return nil, nil, configWordsError{err}
	}
	if s.copies > 0 {
		return nearstore.New(store, &nearstore.Options{Bytes: s.copies}), end, nil
	}
	return store, end, nil
}

// configWordsError is an error of a store that names the options of the configuration file instead
// of those of the package.
type configWordsError struct{ error }

func (e configWordsError) Unwrap() error { return e.error }

func (e configWordsError) Error() string {
	return strings.NewReplacer("AllowEviction", "allow_eviction: true", "Replicas", "acks").Replace(e.error.Error())
}
