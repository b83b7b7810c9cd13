package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// run runs a command in this process.
func run(args ...string) (out, errOut string, code int) {
	var o, e strings.Builder
	code = Main(Drivers{}, args, &o, &e)
	return o.String(), e.String(), code
}

// TestCapacity: the estimate is what the figures say, and grows with what the flags say.
func TestCapacity(t *testing.T) {
	t.Parallel()
	estimate := func(args ...string) (c capacity) {
		out, errOut, code := run(append([]string{"capacity", "--json", "--rate", "50", "--answer", "2000", "--retention", "24h"}, args...)...)
		assert.Equal(t, code, 0, "%v: %s", args, errOut)
		assert.NoError(t, json.Unmarshal([]byte(out), &c), "%s", out)
		return c
	}
	all := estimate()
	assert.Equal(t, all.Keys, 4_320_000, "keys")
	assert.Equal(t, len(all.Stores), len(measuredFigures), "stores")
	one := estimate("--store", "postgres://user:sesame@db/app")
	assert.Equal(t, len(one.Stores), 1, "stores")
	assert.Equal(t, one.Stores[0].Store, "postgres", "the store")
	assert.Equal(t, one.Stores[0].KeyBytes, 2259, "bytes a key")
	assert.Equal(t, one.Stores[0].Bytes, 2259*4_320_000, "bytes")
	assert.True(t, one.Stores[0].PeakShare > 0.05 && one.Stores[0].PeakShare < 0.06, "share at 200 a second: %v", one.Stores[0].PeakShare)
	for _, more := range [][]string{{"--connections", "2000"}, {"--running", "200"}, {"--body", "90000"}} {
		assert.True(t, estimate(more...).Gateway.Memory > all.Gateway.Memory, "%v takes more memory", more)
	}
	assert.True(t, estimate("--peak", "40").Gateway.PeakProcessors > 9*all.Gateway.PeakProcessors, "ten times the peak")
	text, _, code := run("capacity", "--rate", "50", "--answer", "2000", "--store", "mysql://db/app", "--peak", "100")
	assert.Equal(t, code, 0, "%s", text)
	for _, want := range []string{"4320000 keys at a time", "mysql  3423", "14.8 GB", "345 %: too much", "figures: "} {
		assert.Contains(t, text, want, "the text")
	}
}

func TestCapacityBadCalls(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"--rate and --retention are more than zero": {"--rate", "0"},
		"--peak is at least 1":                      {"--peak", "0.5"},
		"cannot be negative":                        {"--body", "-1"},
		"is not known; write memory:":               {"--store", "oracle://sesame@db"},
		"choose another --store":                    {"--store", "memory:"},
	} {
		_, errOut, code := run(append([]string{"capacity"}, args...)...)
		assert.Equal(t, code, 2, "%v: %s", args, errOut)
		assert.Contains(t, errOut, want, "%v", args)
		assert.True(t, !strings.Contains(errOut, "sesame"), "a password: %s", errOut)
	}
}
