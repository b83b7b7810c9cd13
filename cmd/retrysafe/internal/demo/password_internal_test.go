package demo

import (
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// The page shows no password of a store, whichever store it is.
func TestWithoutPassword(t *testing.T) {
	t.Parallel()
	for store, want := range map[string]string{
		"redis://ann:secret@h/1":               "redis://ann:PASSWORD@h/1",
		"rediss://:secret@h":                   "rediss://:PASSWORD@h",
		"postgres://ann:se@cret@h/shop":        "postgres://ann:PASSWORD@h/shop",
		"mysql://ann:secret@h/shop":            "mysql://ann:PASSWORD@h/shop",
		"postgres://ann@h/shop":                "postgres://ann@h/shop",
		"sqlite:///var/lib/ann:1@home/shop.db": "sqlite:///var/lib/ann:1@home/shop.db",
		"memory":                               "memory",
	} {
		assert.Equal(t, withoutPassword(store), want, "%s", store)
	}
}
