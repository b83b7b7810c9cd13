package filter_test

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe/filter"
	"github.com/retrysafe/retrysafe/redisclient"
)

// Orders are imported and kept for 30 days: a new order needs one insert instead of two lookups.
func ExampleBloom() {
	seen, err := filter.NewBloom(&filter.Options{
		Empty:  true,
		Items:  100_000, // in a window
		Window: 24 * time.Hour, Retention: 30 * 24 * time.Hour,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, order := range []string{"a-1", "a-2", "a-1"} {
		if !seen.Add([]byte(order)) { // before the work
			fmt.Println("maybe seen: look it up:", order)
		}
		// INSERT … ON CONFLICT DO NOTHING: the database decides
	}
	// Output: maybe seen: look it up: a-1
}

// The table has rows: the filter says maybe to every id until the rebuild has ended.
func ExampleBloom_Rebuild() {
	seen, err := filter.NewBloom(&filter.Options{Items: 1_000_000})
	if err != nil {
		fmt.Println(err)
		return
	}
	ids := func(yield func([]byte, error) bool) {
		// filter.Rows(db.QueryContext(ctx, "SELECT id FROM orders"))
		_ = yield([]byte("a-1"), nil) && yield([]byte("a-2"), nil)
	}
	fmt.Println("surely new:", seen.Add([]byte("a-3")))
	n, err := seen.Rebuild(context.Background(), ids, func(n int) { /* log it */ })
	fmt.Println(n, err)
	fmt.Println("surely new:", seen.Add([]byte("a-2")), seen.Add([]byte("a-4")))
	// Output:
	// surely new: false
	// 2 <nil>
	// surely new: false true
}

// After a clean shutdown no rebuild is needed: the new process reads what the last one wrote after
// its last insert, removes the file, and marks the filter as whole.
func ExampleBloom_ReadFrom() {
	o := filter.Options{Items: 1000}
	last, _ := filter.NewBloom(&o)
	last.Add([]byte("a-1"))
	var file bytes.Buffer
	if _, err := last.WriteTo(&file); err != nil {
		fmt.Println(err)
		return
	}

	seen, _ := filter.NewBloom(&o)
	if _, err := seen.ReadFrom(&file); err == nil {
		// os.Remove(path), and then:
		seen.MarkWhole()
	} // else Rebuild
	fmt.Println(seen.Add([]byte("a-1")), seen.Add([]byte("a-2")))
	// Output: false true
}

// In a batch, only ids that may have been seen are looked up.
func ExampleLookUp() {
	seen, _ := filter.NewBloom(&filter.Options{Empty: true, Items: 1000})
	seen.Add([]byte("a-1"))
	find := func(_ context.Context, maybe []string) (map[string]int, error) {
		// SELECT id, total FROM orders WHERE id IN (…)
		fmt.Println("SELECT for", maybe)
		return map[string]int{"a-1": 20}, nil
	}
	found, err := filter.LookUp(context.Background(), seen, []string{"a-1", "a-2", "a-3"}, 0, find)
	fmt.Println(found.Rows, found.Asked, err)
	// Output:
	// SELECT for [a-1]
	// map[a-1:20] 1 <nil>
}

// 16 KiB recognise most new ids of the first ten thousand, and estimate their number.
func ExampleHyperLogLog() {
	seen, _ := filter.NewHyperLogLog(&filter.Options{Empty: true})
	fmt.Println(seen.Add([]byte("a-1")), seen.Add([]byte("a-1")))
	fmt.Println(seen.Estimate())
	// Output:
	// true false
	// 1
}

// client is connected to a server; rueidisclient.Open and goredisclient.New return one.
var client redisclient.Client

// A Bloom filter that processes share.
func ExampleRedisBloom() {
	ctx := context.Background()
	seen, err := filter.NewRedisBloom(client, "orders", &filter.Options{Empty: true, Items: 100_000_000})
	if err != nil {
		fmt.Println(err)
		return
	}
	isNew, err := seen.Add(ctx, []byte("a-1"))
	if err != nil {
		fmt.Println(err) // look it up: the id is not surely new
	}
	if !isNew {
		fmt.Println("maybe seen: look it up")
	}
}

// A HyperLogLog of 12 KiB that processes share.
func ExampleRedisHyperLogLog() {
	seen, err := filter.NewRedisHyperLogLog(client, "visits", &filter.Options{Empty: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := seen.MarkWhole(context.Background()); err != nil { // the table is empty
		fmt.Println(err)
	}
}
