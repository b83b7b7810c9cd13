package idgen_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/retrysafe/retrysafe/idgen"
	"github.com/retrysafe/retrysafe/idgen/memranges"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// A process leases a worker number in a store that it uses anyway, and makes ids until it ends.
func ExampleWorkers() {
	ctx := context.Background()
	// In production a store on Redis, SQLite, PostgreSQL or MySQL, without Unsafe.
	workers := idgen.NewWorkers(memstore.New(nil), &idgen.WorkersOptions{Unsafe: true})
	held, err := workers.Claim(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer held.Release(ctx)
	ids, err := idgen.NewSnowflake(held, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	first, _ := ids.Next(ctx)
	second, _ := ids.Next(ctx)
	fmt.Println(second > first, ids.Layout().Split(second).Worker == held.Number())
	// Output: true true
}

// In JSON an id is a string, so that JavaScript reads all of its digits. It also has a short form
// for people.
func ExampleID() {
	id := idgen.ID(7204573214593025)
	text, _ := json.Marshal(map[string]idgen.ID{"order": id})
	fmt.Println(string(text), id.Short())
	back, err := idgen.ParseShort("006CRGNNKDMO1")
	fmt.Println(back, err)
	// Output:
	// {"order":"7204573214593025"} 006crgnnkdm01
	// 7204573214593025 <nil>
}

func ExampleUUIDv7() {
	a, b := idgen.UUIDv7(), idgen.UUIDv7()
	fmt.Println(len(a.String()), a.String() < b.String())
	// Output: 36 true
}

// Ids of a tag come from ranges that a database assigns. Here they come from memory.
func ExampleSegment() {
	ctx := context.Background()
	ranges := memranges.New() // sqlranges or redisranges in production
	_, _ = ranges.Create(ctx, "order", 1, 1000)
	orders, err := idgen.NewSegment(ranges, "order", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer orders.Close()
	first, _ := orders.Next(ctx)
	more, _ := orders.NextN(ctx, 3)
	fmt.Println(first, more)
	// Output: 1 [2 3 4]
}
