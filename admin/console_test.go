package admin_test

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// consoleTexts returns the texts of a language by key, and the keys in their order.
func consoleTexts(t *testing.T, language string) (texts map[string]string, keys []string) {
	t.Helper()
	texts = map[string]string{}
	for _, name := range []string{"console/" + language + ".js", "console/" + language + "-causes.js"} {
		file, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(file), "`\n")
		table, _, found := strings.Cut(rest, "\n`;")
		if !found {
			t.Fatal(name + " is no table")
		}
		for line := range strings.SplitSeq(table, "\n") {
			key, text, _ := strings.Cut(line, "|")
			if texts[key] != "" {
				t.Errorf("%s: %s stands twice", name, key)
			}
			if text == "" || strings.ContainsAny(text, "|\\`$") {
				t.Errorf("%s: a line has a key and a text: %q", name, line)
			}
			texts[key], keys = text, append(keys, key)
		}
	}
	return texts, keys
}

var (
	textValue = regexp.MustCompile(`\{\w+\}`)
	textUse   = regexp.MustCompile(`\bt\("([^"]+)"`)
	textHan   = regexp.MustCompile(`\p{Han}`)
)

// valuesOf returns the values of a text, sorted.
func valuesOf(text string) []string {
	return slices.Sorted(slices.Values(textValue.FindAllString(text, -1)))
}

// only returns the keys that texts does not have.
func only(keys []string, texts map[string]string) []string {
	return slices.DeleteFunc(slices.Clone(keys), func(key string) bool { return texts[key] != "" })
}

// TestConsoleTexts: every text that the page shows is there in both languages, with the same
// values.
func TestConsoleTexts(t *testing.T) {
	t.Parallel()
	texts, keys := consoleTexts(t, "en")
	others, otherKeys := consoleTexts(t, "zh")
	if !slices.Equal(keys, otherKeys) {
		t.Errorf("the languages have other keys, or in another order: %q, %q", only(keys, others), only(otherKeys, texts))
	}
	chinese := 0
	for key, text := range texts {
		if in, out := valuesOf(text), valuesOf(others[key]); !slices.Equal(in, out) {
			t.Errorf("%s: the values %q in English, %q in Chinese", key, in, out)
		}
		if textHan.MatchString(others[key]) {
			chinese++
		}
	}
	if chinese < len(texts)*9/10 {
		t.Errorf("%d of %d Chinese texts are Chinese", chinese, len(texts))
	}
	scripts, err := filepath.Glob("console/*.js")
	if err != nil || len(scripts) < 8 {
		t.Fatalf("%d scripts, %v", len(scripts), err)
	}
	used := 0
	for _, name := range scripts {
		script, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range textUse.FindAllStringSubmatch(string(script), -1) {
			if used++; texts[m[1]] == "" {
				t.Errorf("%s shows %s, which has no text", name, m[1])
			}
		}
		if regexp.MustCompile(`innerHTML|insertAdjacentHTML|document\.write|\beval\(`).Match(script) {
			t.Errorf("%s makes a program or HTML of text", name)
		}
	}
	if used < 100 {
		t.Errorf("%d texts are used", used)
	}
}

var sizesOfDocs = regexp.MustCompile(`less than (\d+) kB compressed and less than (\d+) kB uncompressed`)

// TestConsoleSize: in each language a browser gets the whole page in less than docs/console.md
// says, and it does not get the texts of the other one. The policy is on every file.
func TestConsoleSize(t *testing.T) {
	t.Parallel()
	p := open(t)
	page, err := os.ReadFile("../docs/console.md")
	if err != nil {
		t.Fatal(err)
	}
	said := sizesOfDocs.FindStringSubmatch(strings.Join(strings.Fields(string(page)), " "))
	if said == nil {
		t.Fatalf("docs/console.md does not say %q", sizesOfDocs)
	}
	entries, err := os.ReadDir("console")
	if err != nil {
		t.Fatal(err)
	}
	for i, encoding := range []string{"gzip, br", ""} {
		most, _ := strconv.Atoi(said[1+i]) // it is digits
		for _, other := range []string{"zh", "en"} {
			sum := 0
			for _, e := range entries {
				r := httptest.NewRequest("GET", "/"+e.Name(), nil)
				r.Header.Set("Accept-Encoding", encoding)
				w := httptest.NewRecorder()
				p.server.ServeHTTP(w, r)
				if h := w.Header(); w.Code != 200 || h.Get("Content-Type") == "" || !strings.Contains(h.Get("Content-Security-Policy"), "require-trusted-types-for") {
					t.Errorf("%s: %d %v", e.Name(), w.Code, h)
				}
				if e.Name() != other+".js" && e.Name() != other+"-causes.js" {
					sum += w.Body.Len()
				}
			}
			if sum > most*1000 || sum < most*800 {
				t.Errorf("%d bytes without %s, with Accept-Encoding %q; docs/console.md says less than %d kB", sum, other, encoding, most)
			}
		}
	}
}
