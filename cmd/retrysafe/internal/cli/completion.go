package cli

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// addressSchemes are the beginnings of addresses of stores and brokers. The usage text of a flag
// names those that it accepts.
var addressSchemes = []string{
	"memory:", "sqlite:", "redis://", "redis+sentinel://", "redis+cluster://", "postgres://", "mysql://", "amqp://", "nats://",
}

// flagValues are the values of flags with these names, in all commands.
var flagValues = map[string][]string{
	"on-doubt": {"refuse", "reexecute"}, "in-progress": {"reject", "wait 5s"}, "access-log": {"off", "stdout"},
	"layout": {"twitter", "fast", "uid-generator", "sonyflake"}, "outcome": {"done", "failed", "not-done"},
	"layer": layers, "state": {"issued", "in-progress", "in-doubt", "completed", "failed", "released"},
	"why": deadReasons,
}

// setCompletions sets the shell completion for the flags of c and its subcommands.
func setCompletions(c *cobra.Command) {
	for _, flags := range []*pflag.FlagSet{c.LocalNonPersistentFlags(), c.PersistentFlags()} {
		flags.VisitAll(func(f *pflag.Flag) {
			if fn := flagCompletion(f); fn != nil {
				_ = c.RegisterFlagCompletionFunc(f.Name, fn) // it fails if c has no such flag
			}
		})
	}
	for _, below := range c.Commands() {
		setCompletions(below)
	}
}

func flagCompletion(f *pflag.Flag) cobra.CompletionFunc {
	switch {
	case f.Name == "store" || f.Name == "broker":
		return func(_ *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
			return completeAddress(f.Usage, begun)
		}
	case f.Name == "config":
		return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return []string{"yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt
		}
	case f.Name == "access-log": // or a file
		return cobra.FixedCompletions(flagValues[f.Name], cobra.ShellCompDirectiveDefault)
	case flagValues[f.Name] != nil:
		return cobra.FixedCompletions(flagValues[f.Name], cobra.ShellCompDirectiveNoFileComp)
	}
	return nil
}

// completeAddress returns the beginnings that usage names. After the one for SQLite, the shell
// completes a file name.
func completeAddress(usage, begun string) (all []string, _ cobra.ShellCompDirective) {
	if strings.HasPrefix(begun, "sqlite:") {
		return nil, cobra.ShellCompDirectiveDefault
	}
	for _, s := range addressSchemes {
		if strings.Contains(usage, s) && strings.HasPrefix(s, begun) {
			all = append(all, s)
		}
	}
	return all, cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
}
