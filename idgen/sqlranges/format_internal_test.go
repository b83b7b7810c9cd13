package sqlranges

import (
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// TestSchemaIsFrozen: tables of this version exist. A change needs another version.
func TestSchemaIsFrozen(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"sqlite_v1":   "0596c6079a213da520bb844bad01e9c1971d4024f5bacbdf87ee6ae96e0493df",
		"postgres_v1": "23b7d92dd09ad247f672c38dda35e6b249c1cf1177991179b8b3e0ceb933d753",
		"mysql_v1":    "78dc8e040abf5b68bde6118e283de685bf9f0910b296ef4c88da3cc58d8124b5",
	} {
		assert.Digest(t, "schema/"+name+".sql", want)
	}
}
