package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// layers are the layers of this project, those of the code. docs/formats.md and the comment of
// retrysafe.Engine.Layer list the same. A program may use others.
var layers = []string{"gw", "http", "rpc", "mcp", "mcp-derived", "nginx", "fn", "tx", "mq", "callback", "token", "sig", "ids", "map", "audit", "secret", "mark", "data-key"}

// isReserved reports whether a layer has no calls: the audit log, the check value of the secret,
// and the marks of the store.
func isReserved(layer string) bool { return layer == "audit" || layer == "secret" || layer == "mark" }

// checkLayer returns an error if the layer is unknown and no record has it. A known layer, or one
// that a record has, may have nothing to list.
func (f *keysFlags) checkLayer(ctx context.Context, s storeapi.Store) error {
	lister, ok := s.(storeapi.Lister)
	if f.layer == "" || slices.Contains(layers, f.layer) || !ok {
		return nil
	}
	req := storeapi.ListRequest{Namespace: f.namespace, Layer: f.layer, Limit: 1000}
	for {
		page, err := lister.List(ctx, req)
		switch {
		case err != nil:
			return err
		case len(page.Records)+len(page.Unreadable) > 0:
			return nil
		case page.Next == "":
			return fmt.Errorf("no record has the layer %q; the layers of this project are %s", f.layer, strings.Join(layers, ", "))
		}
		req.After = page.Next
	}
}
