package watermillidem_test

import (
	"fmt"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/adapters/watermillidem"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

func ExampleDeduplicator_Middleware() {
	engine := retrysafe.New(memstore.New(nil), nil)
	d := &watermillidem.Deduplicator{Engine: engine, Name: "stock"}
	// In a router: router.AddMiddleware(d.Middleware)
	handle := d.Middleware(func(m *message.Message) ([]*message.Message, error) {
		fmt.Println("one less of", string(m.Payload))
		return nil, nil
	})
	for range 3 { // the broker delivers it three times
		if _, err := handle(message.NewMessage("order-1", []byte("tea"))); err != nil {
			fmt.Println(err)
		}
	}
	// Output: one less of tea
}
