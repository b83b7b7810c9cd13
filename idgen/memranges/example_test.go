package memranges_test

import (
	"context"
	"fmt"

	"github.com/retrysafe/retrysafe/idgen"
	"github.com/retrysafe/retrysafe/idgen/memranges"
)

// A tag is created once, with a first value above all ids that are in use.
func ExampleNew() {
	ctx := context.Background()
	ranges := memranges.New()
	created, err := ranges.Create(ctx, "order", 1001, 100)
	fmt.Println(created, err)

	orders, err := idgen.NewSegment(ranges, "order", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer orders.Close()
	for range 2 {
		id, err := orders.Next(ctx)
		fmt.Println(id, err)
	}
	// Output:
	// true <nil>
	// 1001 <nil>
	// 1002 <nil>
}
