package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/retrysafe/retrysafe/version"
)

// buildVersion returns the version of this program.
func buildVersion() version.Info { return version.Read("github.com/retrysafe/retrysafe/cmd/retrysafe") }

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Args: cobra.NoArgs, Short: "Print the version and the commit",
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := fmt.Fprint(c.OutOrStdout(), buildVersion().Text("retrysafe"))
			return err
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
}
