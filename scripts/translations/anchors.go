package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/retrysafe/retrysafe/internal/anchor"
)

var toPage = regexp.MustCompile(`\]\(([^)\s#:]*\.md|)#([^)\s]+)\)`)

// mendAnchors replaces anchors of the English page in the links of a twin: the third heading of a
// page is the third heading of its twin. It returns the links whose anchor neither page has.
func mendAnchors(path, text string, read func(string) (string, error)) (mended string, unknown []string) {
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
		has := anchor.OfPage(own)
		if indexOf(has, m[2]) >= 0 {
			return l
		}
		if page, ok := strings.CutSuffix(target, suffix); ok {
			if other, err := read(page + ".md"); err == nil {
				if i := indexOf(anchor.OfPage(other), m[2]); i >= 0 && i < len(has) {
					return "](" + m[1] + "#" + has[i] + ")"
				}
			}
		}
		unknown = append(unknown, l)
		return l
	})
	return mended, unknown
}

func indexOf(all []string, s string) int {
	for i, a := range all {
		if a == s {
			return i
		}
	}
	return -1
}

func readPage(path string) (string, error) {
	text, err := os.ReadFile(path)
	return string(text), err
}

// deadLinks returns the links of a page and of its twin to headings that do not exist.
func deadLinks(page string) (found []string) {
	for _, path := range []string{page, twinPath(page)} {
		text, err := readPage(path)
		if err != nil {
			continue
		}
		mended, unknown := mendAnchors(path, text, readPage)
		for _, l := range unknown {
			found = append(found, fmt.Sprintf("%s: there is no heading for %s", path, strings.Trim(l, "]()")))
		}
		if mended != text {
			found = append(found, path+": anchors of the English page; go run ./scripts/translations -stamp "+page+" replaces them")
		}
	}
	return found
}
