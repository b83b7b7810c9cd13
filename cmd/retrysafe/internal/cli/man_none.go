//go:build !man

package cli

import "github.com/spf13/cobra"

// writeManual does nothing here. It writes manual pages in a build with the tag man, so that other
// builds need not include the generator.
func writeManual(*cobra.Command, []string) (done bool, err error) { return false, nil }
