package servertest

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/internal/assert"
)

const root = "../../"

// language is what a page says in English or Chinese.
type language struct {
	suffix      string // of a page's name
	head        string
	when        map[string]string
	comma, and  string
	onServers   string // begins the item of the README
	nextOfItems string // begins the next item
}

var languages = []language{
	{
		".md", "| server | version | tested by |\n|---|---|---|\n",
		map[string]string{"test": "`make test`", "verify": "`make verify`"},
		", ", " and ", "- **On real servers**", "\n- **",
	},
	{
		".zh-CN.md", "| 服务器 | 版本 | 由谁测试 |\n|---|---|---|\n",
		map[string]string{"test": "`make test`", "verify": "`make verify`"},
		"、", " 和 ", "- **在真实的服务器上**", "\n- **",
	},
}

// TestPagesNameVersions: the pages name the versions of servers/tested.list; UPDATE=1 writes them.
func TestPagesNameVersions(t *testing.T) {
	t.Parallel()
	for _, l := range languages {
		checkPage(t, "README"+l.suffix, l.nameVersions)
		for _, page := range []string{"stores", "messages"} {
			checkPage(t, "docs/"+page+l.suffix, func(text string) string { return l.fillTable(text, page) })
		}
	}
}

// checkPage wants a page to be what write makes of it.
func checkPage(t *testing.T, path string, write func(string) string) {
	t.Helper()
	text, err := os.ReadFile(root + path)
	assert.NoError(t, err, "read")
	want := write(string(text))
	if os.Getenv("UPDATE") != "" && want != string(text) {
		assert.NoError(t, os.WriteFile(root+path, []byte(want), 0o644), "write")
		return
	}
	assert.Equal(t, string(text), want, "%s; write it with UPDATE=1 go test -run TestPagesNameVersions ./internal/servertest", path)
}

// nameVersions writes the versions after the names of their products, in one item of a list. A
// product that the item does not name is put at its end, for somebody to find its place.
func (l language) nameVersions(text string) string {
	before, rest, found := strings.Cut(text, l.onServers)
	item, after, ends := strings.Cut(rest, l.nextOfItems)
	if !found || !ends {
		return "no item begins with " + l.onServers
	}
	versions := map[string][]string{}
	var products []string
	for _, r := range testedRows() {
		if versions[r.product] == nil {
			products = append(products, r.product)
		}
		versions[r.product] = append(versions[r.product], r.shortVersion())
	}
	number := `\d+(\.\d+)*`
	for _, product := range products {
		all := versions[product]
		last := len(all) - 1
		phrase := product + " " + all[last]
		if last > 0 {
			phrase = product + " " + strings.Join(all[:last], l.comma) + l.and + all[last]
		}
		named := regexp.MustCompile(product + `\s` + number + `(` + l.comma + number + `)*(\s` + strings.TrimSpace(l.and) + `\s` + number + `)?`)
		if old := named.FindString(item); old == "" {
			item += l.comma + phrase
		} else if strings.Join(strings.Fields(old), " ") != phrase { // lines are broken anywhere
			item = strings.Replace(item, old, phrase, 1)
		}
	}
	return before + l.onServers + item + l.nextOfItems + after
}

// Lines around a table that is written here.
const tableBegins, tableEnds = "<!-- tested versions -->\n\n", "\n<!-- end -->"

// fillTable writes the table of a page.
func (l language) fillTable(text, page string) string {
	before, rest, found := strings.Cut(text, tableBegins)
	_, after, ends := strings.Cut(rest, tableEnds)
	if !found || !ends {
		return "the page has no place for the table"
	}
	table := l.head
	for _, r := range testedRows() {
		if slices.Contains(r.pages, page) {
			table += fmt.Sprintf("| %s | %s | %s |\n", r.product, r.version, l.when[r.when])
		}
	}
	return before + tableBegins + table + tableEnds + after
}
