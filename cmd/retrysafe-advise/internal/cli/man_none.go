//go:build !man

package cli

import "github.com/spf13/cobra"

// manual does nothing here. It writes manual pages in a build with the tag man, so that other
// builds need not include the generator.
func manual(*cobra.Command, []string) (done bool, err error) { return false, nil }
