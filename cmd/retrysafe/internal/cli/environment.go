package cli

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// storeVariable is for addresses that have a password: all users of a machine can see a
// command line.
const storeVariable = "RETRYSAFE_STORE"

// setStoreFromEnvironment sets --store from the environment if it was not given. The flag then does
// not count as given.
func setStoreFromEnvironment(c *cobra.Command) error {
	f := c.Flags().Lookup("store")
	value := os.Getenv(storeVariable)
	if f == nil || f.Changed || value == "" || f.Annotations[notFromEnvironment] != nil {
		return nil
	}
	if err := f.Value.Set(value); err != nil {
		return &usageError{fmt.Errorf("%s: %w", storeVariable, err)}
	}
	return nil
}

// checkSecretEnds returns an error if a command with a store gets a secret with white space at an
// end. That is most often the line feed of a file or a blank before a comment, which other
// processes do not have.
func checkSecretEnds(c *cobra.Command) error {
	secret := os.Getenv("RETRYSAFE_SECRET")
	if c.Flags().Lookup("store") == nil || secret == strings.TrimSpace(secret) {
		return nil
	}
	where := "ends"
	if strings.TrimLeftFunc(secret, unicode.IsSpace) != secret {
		where = "begins"
	}
	return &usageError{fmt.Errorf("RETRYSAFE_SECRET %s with white space, so it differs from the same secret without it; nothing was done. "+
		"Set it without, such as with RETRYSAFE_SECRET=$(cat FILE). If the namespace was used with the white space, "+
		"its other processes have to change too: \"retrysafe secret replace --help\" says how", where)}
}

// notFromEnvironment marks a flag of a command that makes its own records: the user must name the
// store, so that it is not one in use by accident.
const notFromEnvironment = "not from the environment"

func ignoreEnvironment(flags *pflag.FlagSet) {
	// It fails if there is no such flag.
	_ = flags.SetAnnotation("store", notFromEnvironment, []string{"true"})
}

// newLogger returns the logger of the store. A command that keeps running logs warnings. One that
// looks or resolves once reports only errors: the gateway warns about the server.
func (f *keysFlags) newLogger(c *cobra.Command) *slog.Logger {
	level := slog.LevelError
	if f.longRunning {
		level = slog.LevelWarn
	}
	return slog.New(slog.NewTextHandler(c.ErrOrStderr(), &slog.HandlerOptions{Level: level}))
}

// warnNoSecret warns if the store needs a secret and there is none: hashes are then not those
// that the gateway logs. If the command writes them to the audit log, it is an error instead. It is
// for namespaces without a check value, which would say what is the case.
func (f *keysFlags) warnNoSecret(c *cobra.Command, audited bool) error {
	if f.noSecret || f.warnedNoSecret || os.Getenv("RETRYSAFE_SECRET") != "" {
		return nil
	}
	if n, err := parseStore(f.store); err != nil || !n.isShared() {
		return nil //nolint:nilerr // opening the store returns the error
	}
	const why = "RETRYSAFE_SECRET is not set, and a gateway on this store has one: hashes differ from those that it shows and logs"
	if audited {
		return &usageError{errors.New(why + ", so that a search of the audit log for the right hash would not find this entry. Set it, or say --no-secret if the service has none; nothing was done")}
	}
	f.warnedNoSecret = true
	fmt.Fprintln(c.ErrOrStderr(), why+". Set it, or say --no-secret if the service has none.")
	return nil
}

// warnTwoStores warns if the environment overrides the store of the file. Commands need the
// variable, so it may be set in a shell that starts the gateway.
func (f *gatewayFlags) warnTwoStores(s *gatewayConfig, log *slog.Logger) {
	if s.file == nil || f.isGiven("store") || s.file.FileStore() == "" || s.file.FileStore() == s.Store {
		return
	}
	log.Warn(storeVariable+" overrides store in the configuration file", "used", storeDisplay(s.Store), "file", storeDisplay(s.file.FileStore()))
}

// storeDisplay returns the name of a store without user and password.
func storeDisplay(name string) string {
	n, err := parseStore(name)
	if err != nil {
		return withoutSecrets(name)
	}
	return n.String()
}
