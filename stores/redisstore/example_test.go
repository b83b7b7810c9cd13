package redisstore_test

import (
	"context"
	"fmt"
	"log"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/redisclient"
	"github.com/retrysafe/retrysafe/stores/redisstore"
)

// client is a connection to the servers, from rueidisclient.Open or goredisclient.New.
var client redisclient.Client

// A claim counts once a replica has it too.
func ExampleNew() {
	ctx := context.Background()
	store, err := redisstore.New(ctx, client, &redisstore.Options{Replicas: 1})
	if err != nil {
		log.Fatal(err)
	}
	engine := retrysafe.New(store, &retrysafe.Options{Namespace: "shop"})
	defer engine.Shutdown(ctx)

	key := retrysafe.Key{Tenant: "ann", Operation: "charge", ID: "order-7"}
	replayed, err := retrysafe.Run(ctx, engine, key, func(context.Context) error { return nil })
	fmt.Println("replayed:", replayed, err)
}
