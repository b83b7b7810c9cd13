package sqllock

import (
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// TestSchemaIsFrozen: tables of this version exist. A change needs another version.
func TestSchemaIsFrozen(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"sqlite_v1":   "3835e2a14c952293feaa232cbbe51953708d911db2943da080d6e0fad7f4c978",
		"postgres_v1": "ee42315b47cff6ed94f94ca39ed90ee5331f725b12d82e5efbb9085e1cb1a589",
		"mysql_v1":    "41a25677d575c8fdd608a6a60e44bd0b4a92696638a7fb18a2915b22579b8d21",
	} {
		assert.Digest(t, "schema/"+name+".sql", want)
	}
}
