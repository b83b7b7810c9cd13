package cli

import (
	"fmt"
	"slices"
	"strings"
)

// layers are those of this project's own surfaces. A program may name others.
var layers = []string{"gw", "http", "rpc", "nginx", "fn", "tx", "mq", "callback", "token", "sig", "ids", "map"}

// nothingIn says what may be wrong where no record has a layer that was asked for; nil: it is one of ours, or none was named.
func nothingIn(layer string) error {
	if layer == "" || slices.Contains(layers, layer) {
		return nil
	}
	return fmt.Errorf("no record has the layer %q; the layers of this project are %s", layer, strings.Join(layers, ", "))
}
