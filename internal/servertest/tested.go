package servertest

import (
	_ "embed"
	"fmt"
	"os"
	"slices"
	"strings"
)

//go:embed servers/tested.list
var testedList string

// row is a line of servers/tested.list.
type row struct {
	// Name names the server in a test's name: the product for the version of Debian, and the
	// product and its version for one that is fetched.
	Name string

	fetched          string // its name in servers/servers.list; empty: it is Debian's
	product, version string
	id               string // as the list and environment variables name the version
	when             string // test or verify: the target of make that runs it
	pages            []string
}

// testedRows returns the lines of servers/tested.list.
func testedRows() (rows []row) {
	for line := range strings.Lines(testedList) {
		words := strings.Fields(line)
		if words[0] == "#" {
			continue
		}
		r := row{Name: words[0], product: words[0], id: words[1], version: words[1], when: words[2], pages: strings.Split(words[3], ",")}
		if version := fetchedVersion(r.id); version != "" {
			r.fetched, r.version = r.id, version
			r.Name += " " + r.shortVersion()
		}
		rows = append(rows, r)
	}
	return rows
}

// shortVersion is the version without the number of its last corrections.
func (r row) shortVersion() string {
	numbers := strings.Split(r.version, ".")
	if r.product == "PostgreSQL" {
		return numbers[0]
	}
	return strings.Join(numbers[:min(2, len(numbers))], ".")
}

// chosenRows returns the servers of some products that make test runs, or the one that an
// environment variable chooses.
func chosenRows(variable string, products ...string) []row {
	chosen := os.Getenv(variable)
	rows := slices.DeleteFunc(testedRows(), func(r row) bool {
		return !slices.Contains(products, r.product) || chosen != "" && chosen != r.id || chosen == "" && r.when != "test"
	})
	if len(rows) == 0 {
		panic(fmt.Sprintf("%s=%s: internal/servertest/servers/tested.list has no such server", variable, chosen))
	}
	return rows
}
