package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// TestProblemPages: the pages of the problem codes are those of the tables.
func TestProblemPages(t *testing.T) {
	t.Parallel()
	wrong, err := compareOrWrite(filepath.Join("..", ".."), false)
	assert.NoError(t, err, "compare")
	assert.Equal(t, wrong, nil, "go run ./scripts/problems -write writes these pages")
}

// TestParse: a code without an entry, or without a part of it, is an error.
func TestParse(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ old, new, want string }{
		"no entry":           {"== in-progress\n", "== lease-lost\n", "lease-lost is there twice, or is no code over HTTP"},
		"no code":            {"== in-progress\n", "== in-progres\n", "in-progres is no code"},
		"a code of RPC":      {"== in-progress\n", "== stream-not-guarded\n", "stream-not-guarded is there twice, or is no code over HTTP"},
		"no Chinese":         {"-- done zh\n", "-- done\n", `has no part "done zh"`},
		"a misspelled part":  {"-- operator\n", "-- operators\n", "in one language only"},
		"a part that is not": {"-- client\n", "-- advice\nAsk.\n-- client\n", `has a part "advice"`},
	} {
		changed := strings.Replace(texts, c.old, c.new, 1)
		assert.True(t, changed != texts, "%s: %q is in problems.txt", name, c.old)
		_, err := parseProblems(changed)
		assert.True(t, err != nil && strings.Contains(err.Error(), c.want), "%s: %v", name, err)
	}
	_, err := parseProblems(texts[:strings.LastIndex(texts, "\n== ")])
	assert.True(t, err != nil && strings.Contains(err.Error(), "has no entry for shutting-down"), "the last entry is missing: %v", err)
}

// TestWrite: -write makes every page, keeps the digest of a Chinese one, and reports a page that
// belongs to no code.
func TestWrite(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	dir := filepath.Join(root, "docs", "problems")
	assert.NoError(t, os.MkdirAll(dir, 0o700), "directory")
	for name, text := range map[string]string{
		"README.md":            "# Codes\n\n" + made + "\n| a |\n|---|---|---|---|\n\n" + tableEnd,
		"README.zh-CN.md":      "<!-- translated from README.md 1 -->\n" + made + "\n| a |\n|---|---|---|---|\n\n" + tableEnd + "more\n",
		"in-progress.zh-CN.md": "<!-- translated from in-progress.md 2 -->\nold\n",
		"no-such-code.md":      "# no-such-code\n",
	} {
		assert.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600), "page")
	}
	for range 2 {
		_, err := compareOrWrite(root, true)
		assert.NoError(t, err, "write")
	}
	wrong, err := compareOrWrite(root, false)
	assert.NoError(t, err, "compare")
	assert.Equal(t, wrong, []string{filepath.Join(dir, "no-such-code.md") + ", which no code has"}, "after -write")
	for name, want := range map[string]string{
		"README.md":            "# Codes\n\n" + made + "\n| a |\n|---|---|---|---|\n| [key-malformed](key-malformed.md) | 400 | | The idempotency key is malformed. |\n",
		"README.zh-CN.md":      "<!-- translated from README.md 1 -->\n" + made,
		"in-progress.md":       "\nStatus 409, with `Retry-After`. The first request with this key is still being worked on.\n\n## What happened\n\n",
		"in-progress.zh-CN.md": "<!-- translated from in-progress.md 2 -->\n" + made + "\n# in-progress\n\n[English](in-progress.md)\n\n状态码 409，带有 `Retry-After`。",
		"outcome-unknown.md":   "\nStatus 409, 502 or 504. It is unknown ",
	} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		assert.NoError(t, err, "page")
		assert.Contains(t, string(text), want, "%s", name)
	}
}
