package config_test

import (
	"context"
	"fmt"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/gateway"
	"github.com/retrysafe/retrysafe/gateway/config"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// A gateway of a configuration file, and an error in one.
func Example() {
	c, err := config.Parse([]byte("upstream: http://127.0.0.1:9000\nroutes:\n  - {match: POST /orders/**, key: required}\n"), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	options, policy, err := c.Options()
	if err != nil {
		fmt.Println(err)
		return
	}
	engine := retrysafe.New(memstore.New(nil), &retrysafe.Options{Policy: policy})
	defer engine.Shutdown(context.Background())
	g, err := gateway.New(engine, options)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer g.Close()
	fmt.Println(options.Routes[0].Match)

	_, err = config.Parse([]byte("upstream: http://127.0.0.1:9000\ndefaults: {retentoin: 1h}\n"), nil)
	fmt.Println(err)
	// Output:
	// POST /orders/**
	// configuration:2:12: unknown field "retentoin"; did you mean "retention"?
}
