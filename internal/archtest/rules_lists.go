package archtest

import (
	"go/ast"
	"go/types"
	"path"
	"regexp"
	"slices"
	"strings"
)

// These rules report what misses in lists of the repository: a store, or a broker of messages.
var listRules = []Rule{
	{"lists have every store", listsHaveStores},
	{"lists have every broker", listsHaveBrokers},
	{"the race detector sees goroutines", goroutinesAreRaced},
	{"a page names what makes options of the engine", optionsAreListed},
}

// namesIn returns a violation for each page that does not have a name.
func (t *Tree) namesIn(name string, pages ...string) []Violation {
	var found []Violation
	for _, p := range pages {
		if f := t.File(p); f == nil || !strings.Contains(f.Text, name) {
			found = append(found, Violation{p, "does not name " + name})
		}
	}
	return found
}

// noStores are the packages in stores that keep no records.
var noStores = []string{"stores/storeapi", "stores/storetest"}

// storeServers are the stores, each with one of the servers that it keeps records on, or "".
var storeServers = map[string]string{
	"memstore": "", "sqlstore": "PostgreSQL", "redisstore": "Redis", "shardstore": "", "nearstore": "", "sealstore": "",
}

func listsHaveStores(t *Tree) []Violation {
	var found []Violation
	for _, dir := range t.packageDirs() {
		if path.Dir(dir) != "stores" || slices.Contains(noStores, dir) {
			continue
		}
		if !slices.Contains(stores, dir) {
			found = append(found, Violation{"internal/archtest/rules_import.go", "stores does not have " + dir})
		}
		server, listed := storeServers[path.Base(dir)]
		if !listed {
			found = append(found, Violation{"internal/archtest/rules_lists.go", "storeServers does not have " + dir})
		}
		found = append(found, t.namesIn(server, "README.md", "docs/README.md", "docs/concepts.md", "docs/gateway.md")...)
		found = append(found, t.namesIn(path.Base(dir), "doc.go", "docs/stores.md", "docs/architecture.md")...)
	}
	return found
}

// optionsAreListed reports files that make Options of the engine and that the page for who adds an
// option does not name. Tests and examples are left out.
func optionsAreListed(t *Tree) []Violation {
	var found []Violation
	for _, f := range t.GoFiles() {
		m := t.moduleOf(f)
		if m == nil || f.Test() || isTestSuite(f.Dir()) || !t.isTagged(m) || strings.HasPrefix(f.Dir(), "internal/") {
			continue
		}
		if makesOptions(f) {
			found = append(found, t.namesIn(path.Base(f.Path), "docs/add-a-store.md")...)
		}
	}
	return found
}

// makesOptions reports whether a file has a literal of the engine's Options with more than one
// field. With one it is only validated.
func makesOptions(f *File) bool {
	makes := false
	ast.Inspect(f.AST, func(n ast.Node) bool {
		if lit, ok := n.(*ast.CompositeLit); ok && len(lit.Elts) > 1 {
			of, isName := lit.Type.(*ast.SelectorExpr)
			makes = makes || isName && of.Sel.Name == "Options" && types.ExprString(of.X) == "retrysafe"
		}
		return !makes
	})
	return makes
}

// brokers are the names of the brokers in pages, by the adapters.
var brokers = map[string]string{
	"amqpidem": "RabbitMQ", "kafkaidem": "Kafka", "natsidem": "NATS", "redisstreamidem": "Redis streams",
	"rocketmqidem": "RocketMQ",
}

// withoutCommand are the adapters whose dead letters retrysafe dlq does not reach, and why.
var withoutCommand = map[string]string{
	"kafkaidem":    "docs/messages.md: a program uses Redriver instead",
	"rocketmqidem": "docs/messages.md: a program uses Redriver instead",
}

// listsHaveBrokers: an adapter for messages is one whose tests run mqtest.
func listsHaveBrokers(t *Tree) []Violation {
	importers := map[string][]string{}
	for _, e := range t.importEdges(func(*File) bool { return true }) {
		if e.ours {
			importers[e.dir] = append(importers[e.dir], e.file.Dir())
		}
	}
	adapters := importers["mqidem/mqtest"]
	slices.Sort(adapters)
	var found []Violation
	for _, dir := range slices.Compact(adapters) {
		if path.Dir(dir) != "adapters" {
			continue
		}
		name := path.Base(dir)
		if brokers[name] == "" {
			found = append(found, Violation{"internal/archtest/rules_lists.go", "brokers does not have " + name})
			continue
		}
		found = append(found, t.namesIn(name, "docs/messages.md", "docs/outbox.md")...)
		found = append(found, t.namesIn(brokers[name], "README.md", "docs/README.md", "mqidem/doc.go")...)
		if !slices.Contains(t.shellList("scripts/gotest.sh", "brokers"), dir) {
			found = append(found, Violation{"scripts/gotest.sh", "brokers does not have " + dir})
		}
		places := []string{"test/servers/brokers"}
		if withoutCommand[name] == "" {
			places = append(places, "cmd/retrysafe/internal/drivers")
		}
		for _, place := range places {
			if !slices.Contains(importers[dir], place) {
				found = append(found, Violation{place, "does not import " + dir})
			}
		}
	}
	return found
}

// shellList returns the words of a list of a shell script: name=(…).
func (t *Tree) shellList(script, name string) []string {
	if f := t.File(script); f != nil {
		if m := regexp.MustCompile(`(?m)^` + name + `=\(([^)]*)\)`).FindStringSubmatch(f.Text); m != nil {
			return strings.Fields(m[1])
		}
	}
	return nil
}

// notRaced are the modules with goroutines that make verify tests without the race detector, and
// why. make race uses it for all.
var notRaced = map[string]string{
	"adapters/goredisclient":   "test/servers tests it, with servers",
	"adapters/rueidisclient":   "test/servers tests it, with servers",
	"adapters/amqpidem":        "its tests start servers",
	"adapters/redisstreamidem": "its tests start servers",
	"adapters/rocketmqidem":    "its tests start servers",
	"adapters/zklock":          "its tests start servers",
	"check":                    "its tests examine services over real connections",
	"cmd/retrysafe":            "its tests start servers and processes",
}

// goroutinesAreRaced: a released module that starts goroutines is raced in scripts/verify.sh.
func goroutinesAreRaced(t *Tree) []Violation {
	raced := t.shellList("scripts/verify.sh", "raced")
	starts := map[string]*File{}
	for _, f := range t.GoFiles() {
		m := t.moduleOf(f)
		if m == nil || f.Test() || isTestSuite(f.Dir()) || !t.isTagged(m) || !startsGoroutines(f) {
			continue
		}
		if !slices.Contains(raced, m.Dir) && notRaced[m.Dir] == "" {
			starts[m.Dir] = f
		}
	}
	var found []Violation
	for dir, f := range starts {
		found = append(found, Violation{"scripts/verify.sh", "raced does not have " + dir + ", and " + f.Path + " starts goroutines"})
	}
	return found
}

// startsGoroutines reports whether a file has a go statement, or calls Go of a WaitGroup.
func startsGoroutines(f *File) bool {
	starts := false
	ast.Inspect(f.AST, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			starts = true
		case *ast.CallExpr:
			fun, ok := n.Fun.(*ast.SelectorExpr)
			starts = starts || ok && fun.Sel.Name == "Go"
		}
		return !starts
	})
	return starts
}
