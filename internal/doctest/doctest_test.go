package doctest_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/retrysafe/retrysafe/internal/assert"
)

const root = "../.."

// files returns the texts of all files of the repository with one of the suffixes, by path.
func files(t *testing.T, suffixes ...string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			if d != nil && (d.Name() == ".git" || d.Name() == "node_modules") {
				return filepath.SkipDir
			}
			return err
		}
		for _, s := range suffixes {
			if strings.HasSuffix(path, s) {
				text, err := os.ReadFile(path)
				all[strings.TrimPrefix(path, root+"/")] = string(text)
				return err
			}
		}
		return nil
	})
	assert.NoError(t, err, "walk")
	return all
}

var (
	named  = regexp.MustCompile("`((?:Test|Fuzz|storetest/|httpidemtest/|rpcidemtest/|locktest/|mqtest/)[A-Za-z0-9_/]+)`")
	clause = regexp.MustCompile(`(?m)^\| ([ESH][0-9]+|Limit) \|(.*)\|(.*)\|$`)
)

// missing returns the tests that text names and code does not have.
func missing(text, code string) []string {
	var found []string
	for _, m := range named.FindAllStringSubmatch(text, -1) {
		name := m[1]
		want := "func " + name + "("
		if suite, id, ok := strings.Cut(name, "/"); ok {
			want = map[string]string{"storetest": `{id: "` + id + `", `, "httpidemtest": `{"` + id + `", test`, "rpcidemtest": `{"` + id + `", test`, "locktest": `{"` + id + `", "`, "mqtest": `{"` + id + `", "`}[suite]
		}
		if !strings.Contains(code, want) {
			found = append(found, name)
		}
	}
	return found
}

func code(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	for _, text := range files(t, "_test.go", "stores/storetest/run.go", "httpidemtest/run.go", "rpcidemtest/run.go", "locktest/run.go", "mqtest/run.go", "examples/http/main.go") {
		b.WriteString(text)
	}
	return b.String()
}

// TestGuaranteesAreShown: each clause says something and has a test, and each test that the page
// names exists.
func TestGuaranteesAreShown(t *testing.T) {
	t.Parallel()
	docs, all := files(t, ".md"), code(t)
	guarantees := docs["docs/guarantees.md"]
	assert.Equal(t, missing(guarantees, all), nil, "tests that do not exist")
	guards := docs["docs/which-guard.md"]
	assert.Equal(t, missing(guards, all), nil, "tests that do not exist, in docs/which-guard.md")
	assert.Equal(t, unshown(guards), nil, "rows without a test, in docs/which-guard.md")
	clauses := clause.FindAllStringSubmatch(guarantees, -1)
	assert.True(t, len(clauses) >= 50, "clauses in docs/guarantees.md: %d", len(clauses))
	for _, c := range clauses {
		assert.True(t, len(strings.TrimSpace(c[2])) > 10, "clause %s has a text in docs/guarantees.md", c[1])
		assert.True(t, named.MatchString(c[3]), "clause %s has a test in docs/guarantees.md", c[1])
	}
}

var answer = regexp.MustCompile(`(?m)^\| .*(?:guard\.|DoTx|` + "`Do`" + `|Step|outbox|token|gateway).*$`)

// unshown returns the rows of the first table that recommend something and name no test.
func unshown(text string) []string {
	_, table, _ := strings.Cut(text, "\n|---")
	table, _, _ = strings.Cut(table, "\n\n")
	var found []string
	for _, row := range answer.FindAllString(table, -1) {
		if !named.MatchString(row) {
			found = append(found, row)
		}
	}
	return found
}

func TestUnshownFindsRowsWithoutATest(t *testing.T) {
	t.Parallel()
	text := "| what | use |\n|---|---|\n| a | `guard.Unique` | `TestA` |\n| b | `DoTx` | |\n\n| c | `DoTx` |\n"
	assert.Equal(t, unshown(text), []string{"| b | `DoTx` | |"}, "unshown")
}

func TestMissingFindsWhatIsNotThere(t *testing.T) {
	t.Parallel()
	text := "`TestThere` and `TestGone`, `storetest/S1`, `storetest/S99`, `httpidemtest/H1`, `httpidemtest/H99`, `rpcidemtest/Once`, `rpcidemtest/Twice`, `locktest/L11`, `locktest/L0`, `mqtest/Q1`, `mqtest/Q0`"
	got := missing(text, "func TestThere(t) {id: \"S1\", {\"H1\", testKeys} {\"Once\", testOnce} {\"L11\", \"contexts\"} {\"Q1\", \"content\"")
	assert.Equal(t, got, []string{"TestGone", "storetest/S99", "httpidemtest/H99", "rpcidemtest/Twice", "locktest/L0", "mqtest/Q0"}, "missing")
}

var (
	snippet = regexp.MustCompile("(?s)```go\n(.*?)```")
	space   = regexp.MustCompile(`\s+`)
	block   = regexp.MustCompile("(?s)```.*?```\n")
	link    = regexp.MustCompile(`\]\(([^)#:]+?)(?:#[^)]*)?\)`)
	origin  = regexp.MustCompile(`^<!-- translated from .*\n`)
)

// shown reports whether code contains the snippet. In code, every run of white space is one space.
func shown(snippet, code string) bool {
	return strings.Contains(code, strings.TrimSpace(space.ReplaceAllString(snippet, " ")))
}

// TestSnippetsCompile: each snippet is in an example or a test, word for word. A test in
// examples/http plays what README shows of it.
func TestSnippetsCompile(t *testing.T) {
	t.Parallel()
	docs, all := files(t, ".md"), strings.Join(strings.Fields(code(t)), " ")
	for page, least := range map[string]int{"README.md": 1, "README.zh-CN.md": 1, "docs/concepts.md": 4, "docs/concepts.zh-CN.md": 4} {
		found := snippet.FindAllStringSubmatch(docs[page], -1)
		assert.True(t, len(found) >= least, "snippets in %s: %d", page, len(found))
		for _, s := range found {
			assert.True(t, shown(s[1], all), "%s shows code that no example has:\n%s", page, s[1])
		}
	}
	assert.True(t, !shown("retrysafe.NoSuch"+"Call()", all), "and the check can fail")
}

// TestReadmes: both are short, have no line of prose that is wider than a window, and have the same
// parts.
func TestReadmes(t *testing.T) {
	t.Parallel()
	docs := files(t, ".md")
	for _, page := range []string{"README.md", "README.zh-CN.md"} {
		text := origin.ReplaceAllString(docs[page], "")
		n := strings.Count(text, "\n")
		assert.True(t, n <= 110, "%s has %d lines; keep it at 110, and move what is more to the page of its part", page, n)
		for line := range strings.Lines(block.ReplaceAllString(text, "")) {
			assert.True(t, strings.HasPrefix(line, "|") || utf8.RuneCountInString(line) <= 101, "%s has a line of more than 100 characters: %s", page, line)
		}
	}
	assert.Equal(t, parts(docs["README.zh-CN.md"]), parts(docs["README.md"]), "code, commands, headings, rows and points of README.zh-CN.md")
}

// parts returns what two translations of a page have in common: code and commands unchanged, and
// the beginnings of headings, rows and list items.
func parts(text string) (all []string) {
	code := false
	for line := range strings.Lines(text) {
		mark, words, _ := strings.Cut(line, " ")
		switch {
		case strings.HasPrefix(line, "```"):
			code = !code
		case code:
			all = append(all, line)
		case strings.HasPrefix(line, "    "):
			command, _, _ := strings.Cut(line, " #")
			all = append(all, strings.TrimSpace(command))
		case strings.HasPrefix(mark, "#"), mark == "|" && words != "", mark == "-":
			all = append(all, mark)
		}
	}
	return all
}

func TestParts(t *testing.T) {
	t.Parallel()
	got := parts("# A\nb\n\n```go\nx := 1\n```\n\n| c | d |\n|---|---|\n| e | f |\n\n- g\n  h\n\n    run it   # i\n")
	assert.Equal(t, got, []string{"#", "x := 1\n", "|", "|", "-", "run it"}, "parts")
}

// TestLinks: the files in the repository that a page links to exist.
func TestLinks(t *testing.T) {
	t.Parallel()
	n := 0
	for page, text := range files(t, ".md") {
		for _, m := range link.FindAllStringSubmatch(block.ReplaceAllString(text, ""), -1) {
			n++
			_, err := os.Stat(filepath.Join(root, filepath.Dir(page), m[1]))
			assert.NoError(t, err, "%s links to %s", page, m[1])
		}
	}
	assert.True(t, n > 30, "links: %d", n)
}
