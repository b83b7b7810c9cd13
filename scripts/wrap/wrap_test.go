package main

import (
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// TestTree: no comment and no page of the tree has a line of more than 100 columns. "go run
// ./scripts/wrap" breaks them.
func TestTree(t *testing.T) {
	t.Parallel()
	long, err := wrapTree([]string{"../.."}, true)
	assert.NoError(t, err, "read the tree")
	assert.Equal(t, long, 0, "lines of more than %d columns; go run ./scripts/wrap breaks them", columns)
}

var long = strings.TrimSpace(strings.Repeat("some words ", 12))

// TestGoFile: paragraphs and items are wrapped, a comment after code is put above, and nothing else
// changes.
func TestGoFile(t *testing.T) {
	t.Parallel()
	const half = "some words some words some words some words some words some words some words some words some"
	for name, c := range map[string]struct{ was, is string }{
		"a paragraph": {"// " + long + "\nvar a int\n", "// " + half + "\n// words some words some words some words\nvar a int\n"},
		"an item": {
			"// It:\n//\n//   - " + long + "\nvar a int\n",
			"// It:\n//\n//   - some words some words some words some words some words some words some words some words some\n" +
				"//     words some words some words some words\nvar a int\n",
		},
		"short lines": {"// one\n// two\nvar a int\n", "// one\n// two\nvar a int\n"},
		"after code": {
			"var number = 1 // " + long + "\n",
			"// " + half + "\n// words some words some words some words\nvar number = 1\n",
		},
		"after a brace": {
			"func f() {\n\tif true { // " + long + "\n\t}\n}\n",
			"func f() {\n\tif true {\n\t\t// some words some words some words some words some words some words some words some words\n" +
				"\t\t// some words some words some words some words\n\t}\n}\n",
		},
		"after a backtick in quotes": {
			"var a = \"`\"\n\n// " + long + "\nvar b int\n",
			"var a = \"`\"\n\n// " + half + "\n// words some words some words some words\nvar b int\n",
		},
		"after two slashes in a comment": {
			"var number = 1 // a // " + long + "\n",
			"// a // some words some words some words some words some words some words some words some words some\n// words some words some words some words\nvar number = 1\n",
		},
		"in a text":    {"var a = `\n// " + long + "\n`\n", "var a = `\n// " + long + "\n`\n"},
		"an output":    {"func f() {\n\t// Output:\n\t// " + long + "\n}\n", "func f() {\n\t// Output:\n\t// " + long + "\n}\n"},
		"for a linter": {"var a = 1 //nolint:x // " + long + "\n", "var a = 1 //nolint:x // " + long + "\n"},
	} {
		got, err := wrapGoFile([]byte("package a\n\n" + c.was))
		assert.NoError(t, err, "%s", name)
		assert.Equal(t, string(got), "package a\n\n"+c.is, "%s", name)
	}
}

// TestPage: text is wrapped, and tables, code and headings stay.
func TestPage(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ was, is string }{
		"a paragraph": {long, "some words some words some words some words some words some words some words some words some words\nsome words some words some words"},
		"an item":     {"- " + long, "- some words some words some words some words some words some words some words some words some words\n  some words some words some words"},
		"a table":     {"| " + long + " |", "| " + long + " |"},
		"code":        {"```\n" + long + "\n```", "```\n" + long + "\n```"},
		"a number":    {strings.Replace(long, "some words some words some words some words some words some words some words some words some words some", strings.Repeat("x", 97)+" 1. it", 1), strings.Repeat("x", 97) + " 1.\nit words some words some words"},
	} {
		got, err := wrapPage([]byte(c.was))
		assert.NoError(t, err, "%s", name)
		assert.Equal(t, string(got), c.is, "%s", name)
	}
}
