package main

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

var (
	fence   = regexp.MustCompile("(?ms)^```.*?^```$")
	heading = regexp.MustCompile(`(?m)^(#+) `)
	row     = regexp.MustCompile(`(?m)^\|.*\|$`)
	item    = regexp.MustCompile(`(?m)^ *(?:-|[0-9]+\.) `)
	mono    = regexp.MustCompile("`[^`\n]+`")
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	label   = regexp.MustCompile(`(?m)(?:: | as |\["?|\|).*$`)
	comment = regexp.MustCompile(`(?s)<!--.*?-->`)
)

// comparePages returns in what other, the twin, differs from text. exists reports whether there is
// a file.
func comparePages(page, text, other string, exists func(string) bool) (found []string) {
	m := header.FindStringSubmatch(other)
	switch {
	case m == nil:
		found = append(found, "the first line is not "+strings.TrimSpace(stampLine(page, text)))
	case m[0] != stampLine(page, text):
		found = append(found, "it was made from another version of "+filepath.Base(page)+": compare the two, then run go run ./scripts/translations -stamp "+page)
	}
	text, other = languages.ReplaceAllString(text, ""), languages.ReplaceAllString(header.ReplaceAllString(other, ""), "")
	found = append(found, listDifference("measured tables", measured.FindAllString(text, -1), measured.FindAllString(other, -1))...)
	found = append(found, listDifference("code", codeBlocks(text), codeBlocks(other))...)
	text, other = stripCode(text), stripCode(other)
	found = append(found, listDifference("headings", allSubmatches(heading, text), allSubmatches(heading, other))...)
	found = append(found, listDifference("commands", indentedCommands(text), indentedCommands(other))...)
	for what, pattern := range map[string]*regexp.Regexp{"rows of tables": row, "items of lists": item} {
		if a, b := len(pattern.FindAllString(text, -1)), len(pattern.FindAllString(other, -1)); a != b {
			found = append(found, fmt.Sprintf("%s: %d, and the page has %d", what, b, a))
		}
	}
	found = append(found, brokenEmphasis(other)...)
	found = append(found, listDifference("words in backquotes", sortedSet(mono.FindAllString(text, -1)), sortedSet(mono.FindAllString(other, -1)))...)
	want := linkTargets(page, text, exists)
	found = append(found, listDifference("links", want, replacePictures(page, linkTargets(page, other, nil), exists))...)
	slices.Sort(found)
	return found
}

// codeBlocks returns the code of a page. Of a picture in mermaid it leaves out the texts, which are
// in the language of the page.
func codeBlocks(text string) []string {
	all := fence.FindAllString(text, -1)
	for i, block := range all {
		if strings.HasPrefix(block, "```mermaid\n") {
			all[i] = label.ReplaceAllString(block, "")
		}
	}
	return all
}

// stripCode returns a page without code and comments.
func stripCode(text string) string {
	return comment.ReplaceAllString(fence.ReplaceAllString(text, ""), "")
}

// indentedCommands returns the indented lines of a page, without comments of the shell. An indented
// line after a line of text belongs to an item of a list.
func indentedCommands(text string) (all []string) {
	paragraph := false
	for l := range strings.Lines(text) {
		if strings.TrimSpace(l) == "" {
			paragraph = false
			continue
		}
		if paragraph = paragraph || !strings.HasPrefix(l, "    "); paragraph {
			continue
		}
		l, _, _ = strings.Cut(l, "  # ")
		if l, _, _ = strings.Cut(l, " # "); strings.TrimSpace(l) != "" && (len(l) < 5 || l[4] != ' ') {
			all = append(all, strings.TrimSpace(l))
		}
	}
	return all
}

// linkTargets returns what a page links to, without anchors, which have a language. A link to a
// page that has a twin must be a link to the twin.
func linkTargets(page, text string, exists func(string) bool) (all []string) {
	for _, to := range allSubmatches(link, text) {
		to, _, _ = strings.Cut(to, "#")
		if self := filepath.Base(page); to == self || to == twinPath(self) {
			continue // the link to the other language
		}
		if exists != nil && strings.HasSuffix(to, ".md") && !strings.Contains(to, "://") && exists(filepath.Join(filepath.Dir(page), twinPath(to))) {
			to = twinPath(to)
		}
		all = append(all, to)
	}
	return sortedSet(all)
}

// replacePictures replaces the pictures of a twin, x.zh-CN.png, by those of the page, x.png. A
// picture that does not exist stays as it is.
func replacePictures(page string, all []string, exists func(string) bool) []string {
	for i, to := range all {
		ext := filepath.Ext(to)
		name, ok := strings.CutSuffix(to, ".zh-CN"+ext)
		if ok && ext != ".md" && !strings.Contains(to, "://") && exists(filepath.Join(filepath.Dir(page), to)) {
			all[i] = name + ext
		}
	}
	return sortedSet(all)
}

func allSubmatches(pattern *regexp.Regexp, text string) (all []string) {
	for _, m := range pattern.FindAllStringSubmatch(text, -1) {
		all = append(all, m[1])
	}
	return all
}

func sortedSet(all []string) []string {
	slices.Sort(all)
	return slices.Compact(all)
}

// listDifference says where two lists differ first.
func listDifference(what string, want, got []string) []string {
	if slices.Equal(want, got) {
		return nil
	}
	var lost, more []string
	for _, s := range want {
		if !slices.Contains(got, s) {
			lost = append(lost, s)
		}
	}
	for _, s := range got {
		if !slices.Contains(want, s) {
			more = append(more, s)
		}
	}
	return []string{fmt.Sprintf("%s: %d, and the page has %d; missing here: %.200q; only here: %.200q", what, len(got), len(want), lost, more)}
}
