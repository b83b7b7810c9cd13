package main

import (
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
)

// TestTree: no comment and no page of the tree has a word of the list.
func TestTree(t *testing.T) {
	t.Parallel()
	found, err := checkTree([]string{"../.."})
	assert.NoError(t, err, "read the tree")
	for _, f := range found {
		t.Error(f)
	}
}

// TestLook: each word is found in its wrong sense, and left alone in its right one.
func TestLook(t *testing.T) {
	t.Parallel()
	for _, wrong := range []string{
		"It is made anew.", "a Redis of yours", "this belongs into docs", "As a rule it is quick.", "It tells whether it ran.",
		"the caller is told ErrInDoubt", "what becomes of the message", "Nobody waits.", "whoever holds the key", "until it comes again",
		"A repeat gets the answer.", "a relay publishes behind the commit",
	} {
		assert.True(t, len(findWords(wrong)) > 0, "found: %s", wrong)
	}
	for _, right := range []string{
		"safe to repeat", "It repeats the call.", "They are told apart.", "a service behind the gateway", "behind a load balancer",
		"a replica that falls behind", "It reports whether it ran.",
	} {
		assert.Equal(t, len(findWords(right)), 0, "left alone: %s", right)
	}
}

// TestProse: code, quotes and what examples print are not looked at.
func TestProse(t *testing.T) {
	t.Parallel()
	src := "package a\n\n// It prints \"anew\".\n//\n//\tanew\nfunc f() {\n\t// Output:\n\t// anew\n}\n\nvar b = \"anew\" // and anew\n"
	var found []int
	for _, c := range goComments([]byte(src)) {
		if len(findWords(c.text)) > 0 {
			found = append(found, c.line)
		}
	}
	assert.Equal(t, len(found), 1, "comments")
	assert.Equal(t, found[0], 11, "line")
	page := pageText([]byte("Call `anew`.\n```\nanew\n```\nand anew\n"))
	assert.Equal(t, page[len(page)-2].line, 5, "the line after the code")
	assert.Equal(t, len(findWords(page[0].text)), 0, "code in a line")
}

// TestNames: a function whose name says nothing is found, but for those of tests.
func TestNames(t *testing.T) {
	t.Parallel()
	src := []byte("package p\n\nfunc take() {}\n\nfunc takeTurn() {}\n\nfunc (turn) again() {}\n\ntype turn struct{}\n")
	assert.Equal(t, checkNames("p.go", src), []string{
		"p.go:3:6: func take: name the verb and its object", "p.go:7:13: func again: name the verb and its object",
	}, "names")
	assert.Equal(t, checkNames("p_test.go", src), nil, "names of tests")
}

// TestTexts: the texts that users see are read, but for tags, paths, quotes and lone words.
func TestTexts(t *testing.T) {
	t.Parallel()
	src := "package p\n\nimport \"a b/anew\"\n\ntype t struct {\n\tF int `x:\"made anew\"`\n}\n\n" +
		"var a, b = \"anew\", \"it is made anew\"\n\nvar c = `one\nis anew`\n\nvar d = \"write \\\"made anew\\\"\"\n"
	var found []int
	for _, l := range goTexts([]byte(src)) {
		if len(findWords(l.text)) > 0 {
			found = append(found, l.line)
		}
	}
	assert.Equal(t, found, []int{9, 12}, "lines")
	for _, path := range []string{"outbox/relay.go", "code.go", "advise/rules.go"} {
		assert.True(t, isProduct(path), "a file of the product: %s", path)
	}
	for _, path := range []string{"outbox/relay_test.go", "test/servers/a.go", "stores/storetest/a.go", "scripts/words/a.go"} {
		assert.True(t, !isProduct(path), "not for users: %s", path)
	}
}
