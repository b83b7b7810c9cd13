package redislock_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/retrysafe/retrysafe/lock"
	"github.com/retrysafe/retrysafe/lock/redislock"
	"github.com/retrysafe/retrysafe/redisclient"
)

// connected is a connection to the servers, from rueidisclient.Open or goredisclient.New.
var connected redisclient.Client

func ExampleNew() {
	ctx := context.Background()
	backend, err := redislock.New(ctx, connected, nil)
	if err != nil {
		log.Fatal(err)
	}
	locks := lock.New(backend, &lock.Options{Lease: 10 * time.Second})
	defer locks.Shutdown(ctx)
	err = locks.With(ctx, "account/42", func(ctx context.Context, held *lock.Lock) error {
		fmt.Println("write with fence", held.Fence())
		return ctx.Err()
	})
	fmt.Println(err)
}
