package brokers_test

import (
	"testing"

	"github.com/retrysafe/retrysafe/adapters/rueidisclient"
	"github.com/retrysafe/retrysafe/internal/assert"
	"github.com/retrysafe/retrysafe/redisclient"
	"github.com/retrysafe/retrysafe/redisstore"
)

// redisOn is a store on a Redis.
func redisOn(t *testing.T, url string) *redisstore.Store {
	t.Helper()
	address, err := redisclient.ParseURL(url)
	assert.NoError(t, err, "address")
	client, err := rueidisclient.Open(address)
	assert.NoError(t, err, "connect")
	t.Cleanup(client.Close)
	s, err := redisstore.New(t.Context(), client, &redisstore.Options{Logger: quiet})
	assert.NoError(t, err, "store")
	return s
}
