package redisclient_test

import (
	"fmt"

	"github.com/retrysafe/retrysafe/redisclient"
)

func ExampleParseURL() {
	for _, text := range []string{
		"redis://127.0.0.1/2", "rediss+sentinel://10.0.0.1,10.0.0.2/orders", "redis+cluster://node1:7000,node2:7000", "127.0.0.1:6379",
	} {
		a, err := redisclient.ParseURL(text)
		if err != nil {
			fmt.Println("not an address")
			continue
		}
		fmt.Println(a.Hosts, a.DB, a.Name, a.TLS)
	}
	// Output:
	// [127.0.0.1:6379] 2  false
	// [10.0.0.1:26379 10.0.0.2:26379] 0 orders true
	// [node1:7000 node2:7000] 0  false
	// not an address
}
