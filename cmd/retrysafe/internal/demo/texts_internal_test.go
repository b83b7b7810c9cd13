package demo

import (
	"io/fs"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/check"
	"github.com/retrysafe/retrysafe/internal/assert"
)

var (
	textValue  = regexp.MustCompile(`\{\w+\}`)
	textWord   = regexp.MustCompile(`\pL`)
	textHan    = regexp.MustCompile(`\p{Han}`)
	textQuoted = regexp.MustCompile(`"([a-z][a-z.-]*)"`)
	textShown  = regexp.MustCompile(`(?:\bt\(|\.say\(|Say |\bhas\(|data-t(?:-[a-z-]+)?=|refuse\(w, r, http\.\w+, )"([^"]+)"`)
	textCount  = regexp.MustCompile(`\bcount\("([^"]+)"`)
	textMade   = regexp.MustCompile("\\bt\\(`([a-z.]+)\\.\\$\\{")
)

// readSources returns the files that show texts, as one.
func readSources(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	own, err := filepath.Glob("*.go")
	assert.NoError(t, err, "glob")
	for _, name := range own {
		if !strings.HasSuffix(name, "_test.go") {
			text, err := os.ReadFile(name)
			assert.NoError(t, err, "%s", name)
			all.Write(text)
		}
	}
	assert.NoError(t, fs.WalkDir(files, "page", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path == "page/texts.js" {
			return err
		}
		text, err := files.ReadFile(path)
		all.Write(text)
		return err
	}), "walk")
	return all.String()
}

// TestTexts: each text is there in both languages with the same values, and each that is shown is
// there.
func TestTexts(t *testing.T) {
	t.Parallel()
	file, err := files.ReadFile("page/texts.js")
	assert.NoError(t, err, "texts")
	assert.Equal(t, strings.Count(string(file), "\n")-3, len(texts()), "each line is a text of its own: key|English|中文")
	for key, parts := range texts() {
		assert.True(t, parts[0] != "" && parts[1] != "", "%s is in both languages", key)
		assert.Equal(t, placeholderNames(parts[1]), placeholderNames(parts[0]), "the values of %s", key)
		hasWords := textWord.MatchString(textValue.ReplaceAllString(parts[0], ""))
		assert.Equal(t, textHan.MatchString(parts[1]), hasWords, "the Chinese of %s is Chinese", key)
	}
	all := readSources(t)
	shown := textShown.FindAllStringSubmatch(all, -1)
	assert.True(t, len(shown) > 100, "%d texts are shown", len(shown))
	for _, m := range shown {
		assert.True(t, strings.HasSuffix(m[1], ".") || texts()[m[1]][0] != "", "%s has no text", m[1])
	}
	for _, m := range textCount.FindAllStringSubmatch(all, -1) {
		assert.True(t, texts()[m[1]+".one"][0] != "" && texts()[m[1]+".many"][0] != "", "%s has no text", m[1])
	}
}

func placeholderNames(text string) []string {
	all := textValue.FindAllString(text, -1)
	slices.Sort(all)
	return all
}

// TestTextsAreUsed: no text stays that nothing shows.
func TestTextsAreUsed(t *testing.T) {
	t.Parallel()
	all := readSources(t)
	used, words := map[string]bool{}, map[string]bool{}
	for _, m := range textQuoted.FindAllStringSubmatch(all, -1) {
		words[m[1]] = true
		used[m[1]] = true
	}
	for _, m := range textCount.FindAllStringSubmatch(all, -1) {
		used[m[1]+".one"], used[m[1]+".many"] = true, true
	}
	for _, f := range sixForms {
		used["form."+f.way], used["form."+f.way+".hint"] = true, true
	}
	// by what the engine, the gateway and the checks say
	for _, state := range []string{"completed", "failed", "released", "in-progress", "in-doubt", "none"} {
		used["record."+state] = true
	}
	for v := check.Passed; v < check.Skipped; v++ {
		used["mark."+v.String()] = true
	}
	for s := check.Minor; s <= check.Critical; s++ {
		used["severity."+s.String()] = true
	}
	for _, id := range sceneChecks {
		used["check."+id] = true
	}
	codes, err := filepath.Glob("../../../../docs/problems/*.md")
	assert.True(t, err == nil && len(codes) > 10, "the pages of the problems: %d, %v", len(codes), err)
	for _, page := range codes {
		used["code."+strings.TrimSuffix(filepath.Base(page), ".md")] = true
	}
	// t(`happened.${reason}`): the reason stands in quotes somewhere
	for _, m := range textMade.FindAllStringSubmatch(all, -1) {
		for word := range words {
			used[m[1]+"."+word] = true
		}
	}
	for key := range texts() {
		assert.True(t, used[key], "nothing shows the text %s", key)
	}
}

// TestTextsOfChecks: a check has the title that its report has, and in Chinese that of its page.
func TestTextsOfChecks(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../../docs/checks.zh-CN.md")
	assert.NoError(t, err, "page")
	for _, id := range sceneChecks {
		i := slices.IndexFunc(check.Checks(), func(c *check.Check) bool { return c.ID == id })
		assert.True(t, i >= 0, "there is a check %s", id)
		assert.Equal(t, english.textOf("check."+id), check.Checks()[i].Title, "title")
		assert.Contains(t, string(page), "(#"+id+") | "+chinese.textOf("check."+id)+" |", "title")
		assert.Contains(t, string(page), "\n## "+id+"\n", "the heading that the demonstration links to")
		assert.True(t, strings.HasSuffix(check.Checks()[i].Page(), "/docs/checks.md#"+id), "the link, from which the demonstration makes the Chinese one")
	}
}

// TestLanguageOfRequest: a form's own field, then what the browser prefers.
func TestLanguageOfRequest(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		url, accepts string
		want         language
	}{
		{"/", "", english},
		{"/", "zh-CN,zh;q=0.9,en;q=0.8", chinese},
		{"/", "en-GB,en;q=0.9,zh;q=0.8", english},
		{"/", "fr-FR, zh-TW;q=0.5", chinese},
		{"/", "fr", english},
		{"/?lang=zh", "en", chinese},
		{"/?lang=en", "zh-CN", english},
		{"/?lang=xx", "zh-CN", chinese},
	} {
		r := httptest.NewRequest("GET", tt.url, nil)
		r.Header.Set("Accept-Language", tt.accepts)
		assert.Equal(t, languageOf(r), tt.want, "%s with %q", tt.url, tt.accepts)
	}
	assert.Equal(t, chinese.textOf("form.thanks", "order", "7"), "谢谢：订单 7。", "a value")
}
