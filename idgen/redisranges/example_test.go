package redisranges_test

import (
	"context"
	"fmt"
	"log"

	"github.com/retrysafe/retrysafe/idgen"
	"github.com/retrysafe/retrysafe/idgen/redisranges"
	"github.com/retrysafe/retrysafe/redisclient"
)

// client is a connection to the servers, from rueidisclient.Open or goredisclient.New.
var client redisclient.Client

func ExampleNew() {
	ctx := context.Background()
	ranges, err := redisranges.New(ctx, client, nil)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := ranges.Create(ctx, "order", 1, 1000); err != nil {
		// an existing tag stays as it is
		log.Fatal(err)
	}
	orders, err := idgen.NewSegment(ranges, "order", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer orders.Close()
	fmt.Println(orders.Next(ctx))
}
