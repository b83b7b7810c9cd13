package cli

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/retrysafe/retrysafe/gateway/config"
	"github.com/retrysafe/retrysafe/internal/assert"
)

var addressScheme = regexp.MustCompile(`[a-z][a-z+]*:(?://)?(?:[A-Z]|[,;]|$)`)

// schemesIn returns the beginnings of the addresses that a text names.
func schemesIn(text string) (all []string) {
	for _, s := range addressScheme.FindAllString(text, -1) {
		all = append(all, strings.TrimRight(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ,;"))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// TestAddresses: the error of an unknown store names every kind of store, and so does each flag
// that takes all of them. Completion proposes what the flags name, and nothing else.
func TestAddresses(t *testing.T) {
	t.Parallel()
	_, err := parseStore("none")
	assert.True(t, err != nil, "a store that is none")
	stores := schemesIn(err.Error())
	assert.True(t, len(stores) > 6 && slices.Contains(stores, "mysql://") && slices.Contains(stores, "memory:"), "stores: %v", stores)
	for _, s := range stores {
		_, err := parseStore(s)
		assert.True(t, err == nil || !strings.Contains(err.Error(), "is not known"), "%s is a store: %v", s, err)
		assert.Contains(t, config.Reference(), strings.TrimSuffix(s, ":"), "the option store of the gateway's file")
	}
	var named []string
	eachFlag(rootCommand(), func(f *pflag.Flag) {
		if f.Name != "store" && f.Name != "broker" {
			return
		}
		names := schemesIn(f.Usage)
		named = append(named, names...)
		for _, s := range schemesIn(brokersHelp) {
			assert.True(t, f.Name == "store" || slices.Contains(names, s), "--broker: %q does not name %s", f.Usage, s)
		}
		for _, s := range stores {
			if f.Name == "store" && slices.Contains(names, "redis://") && s != "memory:" {
				assert.True(t, slices.Contains(names, s), "--store: %q does not name %s", f.Usage, s)
			}
		}
	})
	slices.Sort(named)
	proposed := slices.Sorted(slices.Values(addressSchemes))
	assert.Equal(t, proposed, slices.Compact(named), "addresses that completion proposes")
}

// sharedProducts are the servers of stores that other services may use too.
var sharedProducts = map[string]string{"redis": "Redis", "postgres": "PostgreSQL", "postgresql": "PostgreSQL", "mysql": "MySQL"}

// TestSharedProducts: a help text that names one server that other services may use names all.
func TestSharedProducts(t *testing.T) {
	t.Parallel()
	_, err := parseStore("none")
	for _, s := range schemesIn(err.Error()) {
		scheme, _, _ := strings.Cut(strings.TrimSuffix(s, "://"), "+")
		n, err := parseStore(strings.TrimSuffix(s, "://") + "://127.0.0.1/x")
		if err == nil && n.isShared() {
			assert.True(t, sharedProducts[scheme] != "", "sharedProducts does not have %s", s)
		}
	}
	seen := 0
	eachFlag(rootCommand(), func(f *pflag.Flag) {
		if !strings.Contains(f.Usage, " on Redis") {
			return
		}
		seen++
		for _, product := range sharedProducts {
			assert.Contains(t, f.Usage, product, "the help of --%s", f.Name)
		}
	})
	assert.True(t, seen > 5, "flags that name them: %d", seen)
}

// TestFlagValues: each flag whose values completion proposes is a flag of a command.
func TestFlagValues(t *testing.T) {
	t.Parallel()
	unused := map[string]bool{}
	for name := range flagValues {
		unused[name] = true
	}
	eachFlag(rootCommand(), func(f *pflag.Flag) { delete(unused, f.Name) })
	assert.Equal(t, len(unused), 0, "flags that no command has: %v", unused)
}
