//go:build man

package cli

import (
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// writeManual writes the manual pages of root and its subcommands to a directory: go run -tags man
// . man-pages DIRECTORY.
func writeManual(root *cobra.Command, args []string) (done bool, err error) {
	if len(args) != 2 || args[0] != "man-pages" {
		return false, nil
	}
	if err := os.MkdirAll(args[1], 0o755); err != nil { //nolint:gosec // pages for all users
		return true, err
	}
	root.DisableAutoGenTag = true
	root.InitDefaultCompletionCmd()
	header := &doc.GenManHeader{Section: "1", Source: root.Name() + " " + root.Version, Manual: "retrysafe"}
	return true, doc.GenManTree(root, header, args[1])
}
