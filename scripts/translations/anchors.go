package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"unicode"
)

var (
	title   = regexp.MustCompile(`(?m)^#+ +(.*)$`)
	toPage  = regexp.MustCompile(`\]\(([^)\s#:]*\.md|)#([^)\s]+)\)`)
	linked  = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	codeFor = regexp.MustCompile("(?ms)^```.*?^```$")
)

// slugs returns the anchors of the headings of a page, in their order, as GitHub makes them.
func slugs(text string) (all []string) {
	seen := map[string]int{}
	for _, m := range title.FindAllStringSubmatch(codeFor.ReplaceAllString(text, ""), -1) {
		s := slug(linked.ReplaceAllString(m[1], "$1"))
		n := seen[s]
		seen[s]++
		if n > 0 {
			s += "-" + strconv.Itoa(n)
		}
		all = append(all, s)
	}
	return all
}

func slug(heading string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(heading) {
		switch {
		case r == ' ':
			b.WriteByte('-')
		case unicode.IsLetter(r), unicode.IsNumber(r), unicode.IsMark(r), r == '-', r == '_':
			b.WriteRune(r)
		}
	}
	return b.String()
}

// anchors replaces anchors of the English page in the links of a twin: the third heading of a page
// is the third heading of its twin. It returns the links whose anchor neither page has.
func anchors(path, text string, read func(string) (string, error)) (mended string, unknown []string) {
	mended = toPage.ReplaceAllStringFunc(text, func(l string) string {
		m := toPage.FindStringSubmatch(l)
		target := path
		if m[1] != "" {
			target = filepath.Join(filepath.Dir(path), m[1])
		}
		own, err := read(target)
		if err != nil {
			unknown = append(unknown, l)
			return l
		}
		has := slugs(own)
		if index(has, m[2]) >= 0 {
			return l
		}
		if page, ok := strings.CutSuffix(target, suffix); ok {
			if other, err := read(page + ".md"); err == nil {
				if i := index(slugs(other), m[2]); i >= 0 && i < len(has) {
					return "](" + m[1] + "#" + has[i] + ")"
				}
			}
		}
		unknown = append(unknown, l)
		return l
	})
	return mended, unknown
}

func index(all []string, s string) int {
	for i, a := range all {
		if a == s {
			return i
		}
	}
	return -1
}

func read(path string) (string, error) {
	text, err := os.ReadFile(path)
	return string(text), err
}

// dead returns the links of a page and of its twin to headings that do not exist.
func dead(page string) (found []string) {
	for _, path := range []string{page, twin(page)} {
		text, err := read(path)
		if err != nil {
			continue
		}
		mended, unknown := anchors(path, text, read)
		for _, l := range unknown {
			found = append(found, fmt.Sprintf("%s: there is no heading for %s", path, strings.Trim(l, "]()")))
		}
		if mended != text {
			found = append(found, path+": anchors of the English page; go run ./scripts/translations -stamp "+page+" replaces them")
		}
	}
	return found
}
