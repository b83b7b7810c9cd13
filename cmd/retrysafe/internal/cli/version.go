package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/retrysafe/retrysafe/version"
)

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Args: cobra.NoArgs, Short: "Say which version this is, and of which commit",
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := fmt.Fprint(c.OutOrStdout(), version.Read().Text("retrysafe"))
			return err
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
}
