package assert_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// failure returns how an assertion fails; empty: it holds.
func failure(call func(assert.T)) string {
	var p probe
	call(&p)
	return p.text
}

// TestGolden: UPDATE=1 writes a file that is missing, and never changes one that exists.
func TestGolden(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x_v1.golden")
	golden := func(got string) string { return failure(func(p assert.T) { assert.Golden(p, file, got) }) }
	t.Setenv("UPDATE", "")
	assert.Contains(t, golden("a\nb\n"), "UPDATE=1 writes a new one", "no file")
	t.Setenv("UPDATE", "1")
	assert.Equal(t, golden("a\nb\n"), "", "a new file")
	for _, got := range []string{"a\nc\n", "a\n", "a\nb", "a\nb\nc\n", ""} {
		assert.Contains(t, golden(got), "is frozen; a change is a new version", "%q", got)
	}
	text, err := os.ReadFile(file)
	assert.NoError(t, err, "read")
	assert.Equal(t, string(text), "a\nb\n", "the file")
	t.Setenv("UPDATE", "")
	assert.Equal(t, golden("a\nb\n"), "", "the same")
	assert.Contains(t, golden("a\nc\n"), `line 2: got "c\n", and "b\n" is frozen`, "another line")
}

func TestDigest(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "x_v1.sql")
	digest := func(want string) string { return failure(func(p assert.T) { assert.Digest(p, file, want) }) }
	assert.Contains(t, digest(""), "no such file", "no file")
	assert.NoError(t, os.WriteFile(file, []byte("abc"), 0o600), "write")
	assert.Equal(t, digest("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"), "", "the digest of FIPS 180-2")
	assert.Contains(t, digest("00"), "00 is frozen; a change is a new version", "another digest")
}

// TestWords: UPDATE=1 adds words, and never removes one.
func TestWords(t *testing.T) {
	file := filepath.Join(t.TempDir(), "words.golden")
	check := func(words ...string) string { return failure(func(p assert.T) { assert.Words(p, file, words) }) }
	t.Setenv("UPDATE", "")
	assert.Contains(t, check("b", "a"), `does not have ["a" "b"]; UPDATE=1 adds`, "no file")
	t.Setenv("UPDATE", "1")
	assert.Equal(t, check("b", "a", "b"), "", "a new file")
	assert.Equal(t, check("b", "a", "c d"), "", "a new word")
	assert.Contains(t, check("a", "c d"), `"b" is not in the code any more`, "a word less")
	text, err := os.ReadFile(file)
	assert.NoError(t, err, "read")
	assert.Equal(t, string(text), "a\nb\nc d\n", "the file")
	t.Setenv("UPDATE", "")
	assert.Equal(t, check("c d", "a", "b"), "", "the same")
	assert.Contains(t, check("a", "b", "c d", "e"), `does not have ["e"]`, "one more")
}
