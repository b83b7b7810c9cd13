package integration_test

import (
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/storetest"
)

func TestRedisStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) storetest.Backend {
		t.Helper()
		server := startRedis(t)
		client := &counted{Client: rueidisTo(t, server.addr)}
		return storetest.Backend{
			Store:  redisOn(t, client, nil),
			Reopen: func() retrysafe.Store { return redisOn(t, rueidisTo(t, server.addr), nil) },
			Stall:  server.stall,
			Trips:  func() int { return int(client.trips.Load()) },
		}
	}, storetest.Features{Issuer: true, Lister: true, Durable: true})
}
