//go:build !man

package cli

import "github.com/spf13/cobra"

// manual writes manual pages in a build with the tag man, so that programs need not carry what
// writes them.
func manual(*cobra.Command, []string) (done bool, err error) { return false, nil }
