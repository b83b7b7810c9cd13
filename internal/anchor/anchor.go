// Package anchor makes the anchors of headings as GitHub makes them of a page of Markdown.
package anchor

import (
	"regexp"
	"strconv"
	"strings"
	"unicode"
)

var (
	heading   = regexp.MustCompile(`(?m)^#+ +(.*)$`)
	linkText  = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	codeBlock = regexp.MustCompile("(?ms)^```.*?^```$")
)

// OfPage returns the anchors of the headings of a page, in their order. Of headings that are alike
// the second has -1 at its end, and so on.
func OfPage(text string) (all []string) {
	seen := map[string]int{}
	for _, m := range heading.FindAllStringSubmatch(codeBlock.ReplaceAllString(text, ""), -1) {
		a := Of(m[1])
		n := seen[a]
		seen[a]++
		if n > 0 {
			a += "-" + strconv.Itoa(n)
		}
		all = append(all, a)
	}
	return all
}

// Of returns the anchor of a heading that no other heading of its page is like.
func Of(heading string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(linkText.ReplaceAllString(heading, "$1")) {
		switch {
		case r == ' ':
			b.WriteByte('-')
		case unicode.IsLetter(r), unicode.IsNumber(r), unicode.IsMark(r), r == '-', r == '_':
			b.WriteRune(r)
		}
	}
	return b.String()
}
