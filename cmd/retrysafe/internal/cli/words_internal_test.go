package cli

import (
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// TestWords: scripts of users have these commands and flags.
func TestWords(t *testing.T) {
	t.Parallel()
	words := []string{}
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		if c.Hidden || c.Name() == "help" {
			return
		}
		words = append(words, c.CommandPath())
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden && f.Name != "help" && f.Name != "version" {
				words = append(words, c.CommandPath()+" --"+f.Name)
			}
		})
		for _, below := range c.Commands() {
			walk(below)
		}
	}
	walk(rootCommand())
	assert.Words(t, "testdata/words.golden", words)
}
