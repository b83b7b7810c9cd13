package archtest

import (
	"regexp"
	"slices"
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

// foreign are patterns that no file may contain, since the text makes sense only on one machine or
// for one person. Each pattern is written so that it does not match itself.
var foreign = []struct {
	pattern *regexp.Regexp
	// a match contains one of these in lower case; searching for them first is cheap
	hints []string
	why   string
}{
	{regexp.MustCompile(`\.\./share[d]\b`), []string{"share" + "d"}, "points outside the repository"},
	{regexp.MustCompile(`/wor[k]/(main|share[d]|\.)`), []string{"/wor" + "k/"}, "is a path of one machine"},
	{regexp.MustCompile(`(^|[^\w.])/(hom[e]|User[s])/[a-z]`), []string{"/hom" + "e/", "/user" + "s/"}, "is a path of one machine"},
	{regexp.MustCompile(`(^|[^\w.])/roo[t]/`), []string{"/roo" + "t/"}, "is a path of one machine"},
	{regexp.MustCompile(`(proxy|sum)\.golan[g]\.org|registry\.npmj[s]\.org|registry-1\.docke[r]\.io`), []string{"golan" + "g.org", "npmj" + "s.org", "docke" + "r.io"}, "names a registry; let the user's own settings choose"},
	{regexp.MustCompile(`\b(FIXM[E]|TOD[O]:|TOD[O]\(\w)`), []string{"fixm" + "e", "tod" + "o"}, "is unfinished; finish it or open an issue"},
	{regexp.MustCompile(`(?i)\b(issue|ticket|fixes|closes) #\d`), []string{" #"}, "names an issue; say what the matter was"},
	{regexp.MustCompile(`(?i)\blore[m] ipsu[m]\b`), []string{"lore" + "m"}, "is a placeholder"},
}

func textStandsAlone(t *Tree) []Violation {
	var found []Violation
	for _, f := range t.Files {
		lower := strings.ToLower(f.Text)
		for _, bad := range foreign {
			if !slices.ContainsFunc(bad.hints, func(h string) bool { return strings.Contains(lower, h) }) {
				continue
			}
			for _, at := range bad.pattern.FindAllStringIndex(f.Text, -1) {
				line := 1 + strings.Count(f.Text[:at[1]], "\n")
				found = append(found, Violation{f.Path + ":" + strconv.Itoa(line), strconv.Quote(f.Text[at[0]:at[1]]) + " " + bad.why})
			}
		}
	}
	return found
}
