package assert

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// Golden wants got to be the text of a golden file. Such a file freezes what a released build has
// written: with UPDATE=1 in the environment a file that does not exist is written, and one that
// exists is never changed. A changed form is a new version with a file of its own.
func Golden(t T, file, got string) {
	t.Helper()
	want, err := os.ReadFile(file) //nolint:gosec // in the tests' own directory
	if errors.Is(err, fs.ErrNotExist) && os.Getenv("UPDATE") != "" {
		want, err = []byte(got), os.WriteFile(file, []byte(got), 0o644) //nolint:gosec // as all files of the tree
	}
	if err != nil {
		t.Fatalf("golden file: %v; UPDATE=1 writes a new one", err)
		return
	}
	gotLines, wantLines := strings.SplitAfter(got, "\n"), strings.SplitAfter(string(want), "\n")
	for i := range max(len(gotLines), len(wantLines)) {
		if line, frozen := lineAt(gotLines, i), lineAt(wantLines, i); line != frozen {
			t.Fatalf("%s, line %d: got %s, and %s is frozen; a change is a new version", file, i+1, printValue(line), printValue(frozen))
			return
		}
	}
}

// Digest wants a file to have a SHA-256 digest, in hex. It freezes a file that is also code.
func Digest(t T, file, want string) {
	t.Helper()
	text, err := os.ReadFile(file) //nolint:gosec // in the tests' own directory
	if err != nil {
		t.Fatalf("digest: %v", err)
		return
	}
	sum := sha256.Sum256(text)
	if got := hex.EncodeToString(sum[:]); got != want {
		t.Fatalf("%s: the digest is %s, and %s is frozen; a change is a new version", file, got, want)
	}
}

// lineAt returns a line; empty after the last one.
func lineAt(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return ""
}

// Words wants a list to be that of a file with a word on each line, sorted. Others depend on these
// words, so with UPDATE=1 in the environment new ones are added to the file, and none is removed.
func Words(t T, file string, words []string) {
	t.Helper()
	text, err := os.ReadFile(file) //nolint:gosec // in the tests' own directory
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("words: %v", err)
		return
	}
	frozen := strings.FieldsFunc(string(text), isLineFeed)
	for _, w := range frozen {
		if !slices.Contains(words, w) {
			t.Fatalf("%s: %q is not in the code any more, and others depend on it; keep it, or say in CHANGELOG.md what breaks and take it out of the file", file, w)
			return
		}
	}
	words = slices.Compact(slices.Sorted(slices.Values(words)))
	if len(words) == len(frozen) {
		return
	}
	if os.Getenv("UPDATE") == "" {
		missing := slices.DeleteFunc(words, func(w string) bool { return slices.Contains(frozen, w) })
		t.Fatalf("%s does not have %q; UPDATE=1 adds new words", file, missing)
		return
	}
	if err := os.WriteFile(file, []byte(strings.Join(words, "\n")+"\n"), 0o644); err != nil { //nolint:gosec // as all files of the tree
		t.Fatalf("words: %v", err)
	}
}

func isLineFeed(r rune) bool { return r == '\n' }
