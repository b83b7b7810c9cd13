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
	comment = regexp.MustCompile(`(?s)<!--.*?-->`)
)

// compare returns in what other, the twin, differs from text. exists reports whether there is a
// file.
func compare(page, text, other string, exists func(string) bool) (found []string) {
	m := header.FindStringSubmatch(other)
	switch {
	case m == nil:
		found = append(found, "the first line is not "+strings.TrimSpace(line(page, text)))
	case m[0] != line(page, text):
		found = append(found, "it was made from another version of "+filepath.Base(page)+": compare the two, then run go run ./scripts/translations -stamp "+page)
	}
	text, other = languages.ReplaceAllString(text, ""), languages.ReplaceAllString(header.ReplaceAllString(other, ""), "")
	found = append(found, differ("measured tables", measured.FindAllString(text, -1), measured.FindAllString(other, -1))...)
	found = append(found, differ("code", fence.FindAllString(text, -1), fence.FindAllString(other, -1))...)
	text, other = plain(text), plain(other)
	found = append(found, differ("headings", submatches(heading, text), submatches(heading, other))...)
	found = append(found, differ("commands", commands(text), commands(other))...)
	for what, pattern := range map[string]*regexp.Regexp{"rows of tables": row, "items of lists": item} {
		if a, b := len(pattern.FindAllString(text, -1)), len(pattern.FindAllString(other, -1)); a != b {
			found = append(found, fmt.Sprintf("%s: %d, and the page has %d", what, b, a))
		}
	}
	found = append(found, emphasis(other)...)
	found = append(found, differ("words in backquotes", set(mono.FindAllString(text, -1)), set(mono.FindAllString(other, -1)))...)
	want := targets(page, text, exists)
	found = append(found, differ("links", want, pictures(page, targets(page, other, nil), exists))...)
	slices.Sort(found)
	return found
}

// plain is a page without code and comments.
func plain(text string) string {
	return comment.ReplaceAllString(fence.ReplaceAllString(text, ""), "")
}

// commands returns the indented lines of a page, without comments of the shell. An indented line
// after a line of text belongs to an item of a list.
func commands(text string) (all []string) {
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

// targets returns what a page links to, without anchors, which have a language. A link to a page
// that has a twin must be a link to the twin.
func targets(page, text string, exists func(string) bool) (all []string) {
	for _, to := range submatches(link, text) {
		to, _, _ = strings.Cut(to, "#")
		if self := filepath.Base(page); to == self || to == twin(self) {
			continue // the link to the other language
		}
		if exists != nil && strings.HasSuffix(to, ".md") && !strings.Contains(to, "://") && exists(filepath.Join(filepath.Dir(page), twin(to))) {
			to = twin(to)
		}
		all = append(all, to)
	}
	return set(all)
}

// pictures replaces the pictures of a twin, x.zh-CN.png, by those of the page, x.png. A picture
// that does not exist stays as it is.
func pictures(page string, all []string, exists func(string) bool) []string {
	for i, to := range all {
		ext := filepath.Ext(to)
		name, ok := strings.CutSuffix(to, ".zh-CN"+ext)
		if ok && ext != ".md" && !strings.Contains(to, "://") && exists(filepath.Join(filepath.Dir(page), to)) {
			all[i] = name + ext
		}
	}
	return set(all)
}

func submatches(pattern *regexp.Regexp, text string) (all []string) {
	for _, m := range pattern.FindAllStringSubmatch(text, -1) {
		all = append(all, m[1])
	}
	return all
}

func set(all []string) []string {
	slices.Sort(all)
	return slices.Compact(all)
}

// differ says where two lists differ first.
func differ(what string, want, got []string) []string {
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
