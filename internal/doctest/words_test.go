package doctest_test

import (
	"go/scanner"
	"go/token"
	"path"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// wire are the texts of the code that others know: fields of HTTP, headers of messages, metadata
// of RPC, and variables of the environment.
var wire = regexp.MustCompile(`^(?:[A-Z][A-Za-z0-9]*(?:-[A-Z0-9][A-Za-z0-9]*)+|(?:retrysafe|idempotency|x)-[a-z-]*[a-z]|RETRYSAFE_[A-Z_]+)=?$`)

// TestWordsOfTheWire: each module has the fields, headers and variables that it had. Lists that a
// program can make are in the modules; these words stand in the code one by one.
func TestWordsOfTheWire(t *testing.T) {
	t.Parallel()
	modules := map[string]bool{}
	for file := range files(t, "go.mod") {
		modules[path.Dir(file)] = true
	}
	var words []string
	for file, text := range files(t, ".go") {
		if strings.HasSuffix(file, "_test.go") || !product(file) {
			continue
		}
		module := path.Dir(file)
		for !modules[module] {
			module = path.Dir(module)
		}
		for _, w := range literals(text) {
			if wire.MatchString(w) {
				words = append(words, module+": "+strings.TrimSuffix(w, "="))
			}
		}
	}
	assert.True(t, len(words) > 50, "words: %d", len(words))
	assert.Words(t, "testdata/words.golden", words)
}

// product reports whether users run the file.
func product(file string) bool {
	for _, part := range []string{"examples/", "internal/", "scripts/", "test/"} {
		if strings.HasPrefix(file, part) {
			return false
		}
	}
	for part := range strings.SplitSeq(path.Dir(file), "/") {
		if strings.HasSuffix(part, "test") || part == "demo" || part == "testdata" || part == "servers" || part == "attacks" {
			return false
		}
	}
	return true
}

// literals returns the strings of a Go file.
func literals(text string) (found []string) {
	var s scanner.Scanner
	set := token.NewFileSet()
	s.Init(set.AddFile("", set.Base(), len(text)), []byte(text), nil, 0)
	for {
		switch _, tok, lit := s.Scan(); tok {
		case token.EOF:
			return found
		case token.STRING:
			if w, err := strconv.Unquote(lit); err == nil {
				found = append(found, w)
			}
		}
	}
}
