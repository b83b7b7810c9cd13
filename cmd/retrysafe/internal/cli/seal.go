package cli

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/retrysafe/retrysafe/stores/sealstore"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// sealKeysVariable has the text of a key file.
const sealKeysVariable = "RETRYSAFE_SEAL_KEYS"

// sealFlags say how the records of a store are opened and sealed.
type sealFlags struct{ keys, dataKeys string }

func (f *sealFlags) addTo(flags *pflag.FlagSet) {
	flags.StringVar(&f.keys, "seal-keys", "", "key file of a sealed store, or RETRYSAFE_SEAL_KEYS with its text; docs/sealed.md")
	flags.StringVar(&f.dataKeys, "data-keys", "", "directory of the tenants' data keys, if they are not in the store")
}

// readRing returns the master keys, or nil if none are given.
func (f *sealFlags) readRing() (*sealstore.Ring, error) {
	if f.keys != "" {
		return sealstore.ReadRing(f.keys)
	}
	text := os.Getenv(sealKeysVariable)
	if text == "" {
		return nil, nil //nolint:nilnil // as documented
	}
	r, err := sealstore.ParseRing([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", sealKeysVariable, err)
	}
	return r, nil
}

// sealStore returns a store that opens and seals the records of s, or nil if no keys are given.
func (f *sealFlags) sealStore(s storeapi.Store, unopened func(storeapi.StoreKey, error)) (*sealstore.Store, error) {
	ring, err := f.readRing()
	if err != nil || ring == nil {
		if err == nil && f.dataKeys != "" {
			err = errors.New("--data-keys: the data keys are wrapped; give the master keys too, with --seal-keys")
		}
		if err != nil {
			return nil, &usageError{err}
		}
		return nil, nil //nolint:nilnil // as documented
	}
	o := &sealstore.Options{OnUnopened: unopened}
	if f.dataKeys != "" {
		if _, err := os.Stat(f.dataKeys); err != nil { // looking creates nothing
			return nil, fmt.Errorf("--data-keys: %w", err)
		}
		if o.Keys, err = sealstore.KeysDir(f.dataKeys); err != nil {
			return nil, err
		}
	}
	return sealstore.New(s, ring, o), nil
}

// logUnopened returns a function that logs why records are not opened, at most once in a minute.
func logUnopened(log *slog.Logger) func(storeapi.StoreKey, error) {
	var last atomic.Int64 // unix seconds
	return func(key storeapi.StoreKey, why error) {
		now, before := time.Now().Unix(), last.Load()
		if now-before >= 60 && last.CompareAndSwap(before, now) {
			what := "a duplicate does not get its answer, which cannot be opened"
			if key.Layer == "audit" {
				what = "an entry of the audit log cannot be opened"
			}
			log.Warn(what, "layer", key.Layer, "operation", key.Operation, "error", why.Error())
		}
	}
}

func sealCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "seal", RunE: onlySubcommands,
		Short: "Manage the keys of a sealed store",
		Long: "seal manages the keys that encrypt answers. A key file has the master keys. Each tenant has a data key, which is stored\n" +
			"encrypted by the current master key, in the store or in a directory.",
	}
	keygen := &cobra.Command{
		Use: "keygen ID", Args: cobra.ExactArgs(1), Short: "Print a new key file with one key",
		RunE: func(c *cobra.Command, args []string) error {
			text, err := sealstore.NewKeyFile(args[0])
			if err != nil {
				return &usageError{err}
			}
			_, err = c.OutOrStdout().Write(text)
			return err
		},
	}
	c.AddCommand(keygen, rewrapCommand(), forgetCommand())
	return c
}
