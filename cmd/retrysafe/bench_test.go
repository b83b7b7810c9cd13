package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// TestBenchStore: the figures are of real calls, and the store shows the records.
func TestBenchStore(t *testing.T) {
	t.Parallel()
	file := "sqlite:" + filepath.Join(t.TempDir(), "r.db")
	for _, store := range []string{"memory:", file, file + " --naive"} {
		store, naive, _ := strings.Cut(store, " ")
		c := newCommand(t, append([]string{"bench", "store", "--store", store, "--workers", "3", "--duration", "100ms", "--json"}, strings.Fields(naive)...)...)
		var out, said bytes.Buffer
		c.Stdout, c.Stderr = &out, &said
		assert.NoError(t, c.Run(), "%s: %s", store, &said)
		var got map[string]any
		assert.NoError(t, json.Unmarshal(out.Bytes(), &got), "%s: %s", store, &out)
		assert.Equal(t, got["store"], any(strings.TrimSuffix(store, ":")), "store")
		assert.Equal(t, got["workers"], any(3.0), "workers")
		assert.Equal(t, got["naive"] == true, naive != "", "naive")
		for _, name := range []string{"begin_complete_per_s", "replay_per_s", "p50_ms", "p99_ms"} {
			v, _ := got[name].(float64)
			assert.True(t, v > 0, "%s of %s: %s", name, store, &out)
		}
	}
	out, err := newCommand(t, "keys", "list", "--store", file, "--state", "completed", "--limit", "1").Output()
	assert.NoError(t, err, "keys")
	assert.Contains(t, string(out), "completed", "what was measured is there")
}

func TestBenchStoreBadCalls(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"--workers is from 1":    {"--store", "memory:", "--workers", "0"},
		"--duration from 10ms":   {"--store", "memory:", "--duration", "2m"},
		`store "tape:" is not`:   {"--store", "tape:"},
		"unknown command \"up\"": nil,
	} {
		call := append([]string{"bench", "store"}, args...)
		if args == nil {
			call = []string{"bench", "up"}
		}
		out, err := newCommand(t, call...).CombinedOutput()
		var exit *exec.ExitError
		assert.True(t, errors.As(err, &exit) && exit.ExitCode() == 2, "%v: %v", call, err)
		assert.True(t, strings.Contains(string(out), want), "%v: %s", call, out)
	}
	out, err := newCommand(t, "bench", "store", "--store", "redis://127.0.0.1:1", "--duration", "10ms").CombinedOutput()
	assert.True(t, err != nil && strings.Contains(string(out), "connection refused"), "a store that is away: %v: %s", err, out)
}
