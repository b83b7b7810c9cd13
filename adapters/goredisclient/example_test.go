package goredisclient_test

import (
	"context"
	"log"

	"github.com/redis/go-redis/v9"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/adapters/goredisclient"
	"github.com/retrysafe/retrysafe/stores/redisstore"
)

// The program has a client of go-redis already.
func ExampleNew() {
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379"})
	defer rdb.Close()

	client, err := goredisclient.New(rdb)
	if err != nil {
		log.Fatal(err)
	}
	store, err := redisstore.New(ctx, client, nil)
	if err != nil {
		log.Fatal(err)
	}
	engine := retrysafe.New(store, &retrysafe.Options{Namespace: "shop"})
	defer engine.Shutdown(ctx)
}
