package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// What a command does with a store, and what it therefore needs.
const (
	// It shows records, and says so if their namespace was used with another secret: listRecords or
	// findChecked does that.
	shows = "shows"
	// It changes records: it calls requireSameSecret or findChecked, and needsNamespace if its
	// --namespace selects records. It writes what it did to auditLog.
	changes = "changes"
	// It makes records of its own, for a trial: ignoreEnvironment keeps it from a store in use.
	makes = "makes"
	// It shows or moves dead letters, whose records name the namespace: a dlqSession compares its
	// secret and has the audit log.
	letters = "dead letters"
	// It opens no store: its flag is not from the environment, as with makes.
	none = "opens none"
	// It compares the secret itself, or shows and changes nothing that has a hash.
	other = "other"
)

// storeCommands are the commands with --store.
var storeCommands = map[string]string{
	"keys list": shows, "keys show": shows, "keys quota": other,
	"keys export": changes, "keys forget": changes,
	"keys release": changes, "keys resolve": changes, "resume": changes, "seal rewrap": changes, "seal forget": changes,
	"dlq list": letters, "dlq show": letters, "dlq redrive": letters, "dlq discard": letters, "dlq run": letters,
	"bench store": makes, "demo": makes, "capacity": none,
	"console": other, "gateway": other, "ids serve": other, "migrate": other, "secret check": other, "secret replace": other,
	// the store has their audit log alone
	"outbox list": other, "outbox redrive": other, "outbox discard": other,
	"restore check": other, "restore accept": other,
	"keys": other, "dlq": other, // they print their help
}

// TestStoreCommands: each command with a store is listed, and has what its kind needs.
func TestStoreCommands(t *testing.T) {
	t.Parallel()
	secrets, err := os.ReadFile(filepath.Join("..", "..", "wrongsecret_test.go"))
	assert.NoError(t, err, "the tests with another secret")
	var found []string
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		for _, child := range c.Commands() {
			walk(child)
		}
		flag := c.Flag("store")
		if !c.Runnable() || flag == nil {
			return
		}
		name := strings.TrimPrefix(c.CommandPath(), "retrysafe ")
		found = append(found, name)
		kind := storeCommands[name]
		assert.True(t, kind != "", "list %q in storeCommands: what does it do with a store?", name)
		assert.Equal(t, len(flag.Annotations[notFromEnvironment]) > 0, kind == makes || kind == none, "%s makes records or opens no store, so it ignores RETRYSAFE_STORE", name)
		if kind == shows || kind == changes {
			args := `"` + strings.ReplaceAll(name, " ", `", "`) + `"`
			assert.True(t, strings.Contains(string(secrets), args), "TestCommandsWithAnotherSecret needs a row for %s", name)
		}
	}
	walk(rootCommand())
	for name := range storeCommands {
		assert.True(t, slices.Contains(found, name), "%q in storeCommands is no command with --store", name)
	}
}
