package archtest

import (
	"regexp"
	"strconv"
	"strings"
)

var textRules = []Rule{
	{"packages have a comment", packagesHaveComment},
	{"text stands on its own", textStandsAlone},
}

func packagesHaveComment(t *Tree) []Violation {
	has := map[string]bool{}
	for _, f := range t.GoFiles() {
		has[f.Dir()] = has[f.Dir()] || f.AST.Doc != nil
	}
	var found []Violation
	for _, dir := range t.packageDirs() {
		if !has[dir] {
			found = append(found, Violation{dir, "the package has no comment; say what it is for in doc.go"})
		}
	}
	return found
}

// foreign are the patterns that no file may hold: what only makes sense on one machine or to one person.
// Each is written so that it does not match itself.
var foreign = []struct {
	pattern *regexp.Regexp
	why     string
}{
	{regexp.MustCompile(`\.\./share[d]\b`), "points outside the repository"},
	{regexp.MustCompile(`/wor[k]/(main|share[d]|\.)`), "is a path of one machine"},
	{regexp.MustCompile(`(^|[^\w.])/(hom[e]|User[s])/[a-z]`), "is a path of one machine"},
	{regexp.MustCompile(`(^|[^\w.])/roo[t]/`), "is a path of one machine"},
	{regexp.MustCompile(`(proxy|sum)\.golan[g]\.org|registry\.npmj[s]\.org|registry-1\.docke[r]\.io`), "names a registry; let the user's own settings choose"},
	{regexp.MustCompile(`\b(FIXM[E]|TOD[O]:|TOD[O]\(\w)`), "is unfinished; finish it or open an issue"},
	{regexp.MustCompile(`(?i)\b(issue|ticket|fixes|closes) #\d`), "names an issue; say what the matter was"},
	{regexp.MustCompile(`(?i)\blore[m] ipsu[m]\b`), "is a placeholder"},
}

func textStandsAlone(t *Tree) []Violation {
	var found []Violation
	for _, f := range t.Files {
		n := 0
		for line := range strings.Lines(f.Text) {
			n++
			for _, bad := range foreign {
				if hit := bad.pattern.FindString(line); hit != "" {
					found = append(found, Violation{f.Path + ":" + strconv.Itoa(n), strconv.Quote(hit) + " " + bad.why})
				}
			}
		}
	}
	return found
}
