package version_test

import (
	"fmt"

	"github.com/retrysafe/retrysafe/version"
)

func ExampleInfo_Released() {
	for _, v := range []string{"v0.1.0", "v0.1.1-0.20261125101500-0123456789ab", "(devel)"} {
		fmt.Println(v, version.Info{Version: v}.Released())
	}
	// Output:
	// v0.1.0 true
	// v0.1.1-0.20261125101500-0123456789ab false
	// (devel) false
}
