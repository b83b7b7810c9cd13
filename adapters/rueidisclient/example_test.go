package rueidisclient_test

import (
	"context"
	"log"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/adapters/rueidisclient"
	"github.com/retrysafe/retrysafe/redisclient"
	"github.com/retrysafe/retrysafe/stores/redisstore"
)

func ExampleOpen() {
	ctx := context.Background()
	address, err := redisclient.ParseURL("redis://127.0.0.1:6379")
	if err != nil {
		log.Fatal(err)
	}
	client, err := rueidisclient.Open(address)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	store, err := redisstore.New(ctx, client, nil)
	if err != nil {
		log.Fatal(err)
	}
	engine := retrysafe.New(store, &retrysafe.Options{Namespace: "shop"})
	defer engine.Shutdown(ctx)
}
