package cli

import (
	"fmt"
	"log/slog"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// storeOfEnvironment is for addresses that have a password: a command line can be seen by all users
// of a machine.
const storeOfEnvironment = "RETRYSAFE_STORE"

// fromEnvironment sets --store where it was not given. The flag does not count as given then.
func fromEnvironment(c *cobra.Command) error {
	f := c.Flags().Lookup("store")
	value := os.Getenv(storeOfEnvironment)
	if f == nil || f.Changed || value == "" || f.Annotations[notFromEnvironment] != nil {
		return nil
	}
	if err := f.Value.Set(value); err != nil {
		return &usageError{fmt.Errorf("%s: %w", storeOfEnvironment, err)}
	}
	return nil
}

// notFromEnvironment marks a flag of a command that makes records of its own: a store in use is to
// be named.
const notFromEnvironment = "not from the environment"

func onlyByFlag(flags *pflag.FlagSet) {
	// it fails for a flag that is not there
	_ = flags.SetAnnotation("store", notFromEnvironment, []string{"true"})
}

// warnings are for those who change something: who only looks is told of failures alone.
func (f *keysFlags) warnings(c *cobra.Command) *slog.Logger {
	level := slog.LevelWarn
	if f.looks {
		level = slog.LevelError
	}
	return slog.New(slog.NewTextHandler(c.ErrOrStderr(), &slog.HandlerOptions{Level: level}))
}
