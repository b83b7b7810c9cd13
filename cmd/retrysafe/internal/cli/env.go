package cli

import (
	"fmt"
	"log/slog"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// storeOfEnvironment is for addresses that have a password: all users of a machine can see a
// command line.
const storeOfEnvironment = "RETRYSAFE_STORE"

// fromEnvironment sets --store from the environment if it was not given. The flag then does not
// count as given.
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

// notFromEnvironment marks a flag of a command that makes its own records: the user must name the
// store, so that it is not one in use by accident.
const notFromEnvironment = "not from the environment"

func onlyByFlag(flags *pflag.FlagSet) {
	// It fails if there is no such flag.
	_ = flags.SetAnnotation("store", notFromEnvironment, []string{"true"})
}

// warnings returns the logger for warnings. Commands that change something log them. Commands that
// only read report errors, but no warnings.
func (f *keysFlags) warnings(c *cobra.Command) *slog.Logger {
	level := slog.LevelWarn
	if f.looks {
		level = slog.LevelError
	}
	return slog.New(slog.NewTextHandler(c.ErrOrStderr(), &slog.HandlerOptions{Level: level}))
}
