package archtest

import (
	"slices"
	"strings"
)

var importRules = []Rule{
	{"core stays light", coreStaysLight},
	{"core stands alone", coreStandsAlone},
	{"stores do not know the engine", storesWithoutEngine},
	{"layers do not meet", layersDoNotMeet},
	{"suites are for tests", suitesAreForTests},
	{"adapters and commands are leaves", leavesNotImported},
	{"adapters use the root only", adaptersUseRoot},
	{"root imports itself and the standard library", rootImportsOwn},
	{"product code keeps to its module's internals", internalsStayInModule},
	{"the gateway's packages point down", gatewayPointsDown},
}

// heavy are packages of the standard library that the core must not bring into a program that only
// uses Do.
var heavy = []string{
	"net/http", "database/sql", "testing",
	"expvar", "net/rpc", // these import net/http
}

func coreStaysLight(t *Tree) []Violation {
	var found []Violation
	for _, e := range t.reachedImports(".") {
		if withinAny(e.path, heavy) {
			found = append(found, Violation{e.file.Path, "the core package would carry " + e.path + " into every program"})
		}
	}
	return found
}

// coreStandsAlone: all other packages import the core, so it imports only internal ones. storeapi
// is the lowest package, the root comes next, and neither knows what is built on them.
func coreStandsAlone(t *Tree) []Violation {
	var found []Violation
	for _, e := range t.importEdges(func(f *File) bool { return (f.Dir() == "." || f.Dir() == "stores/storeapi") && !f.Test() }) {
		below := isWithin(e.dir, "internal") || e.dir == "stores/storeapi" && e.file.Dir() == "."
		if e.ours && !below {
			found = append(found, Violation{e.file.Path, "the core imports " + e.path})
		}
	}
	return found
}

// storesWithoutEngine: a store is written against storeapi. The engine is one of its callers.
func storesWithoutEngine(t *Tree) []Violation {
	var found []Violation
	for _, e := range t.importEdges(func(f *File) bool { return withinAny(f.Dir(), stores) && !f.Test() }) {
		if e.ours && e.dir == "." {
			found = append(found, Violation{e.file.Path, "a store imports the engine; storeapi has what it needs"})
		}
	}
	return found
}

var (
	// stores keep records. Each is one of several choices, so only programs and tests import one.
	stores = []string{"stores/memstore", "stores/sqlstore", "stores/redisstore", "stores/shardstore", "stores/nearstore", "stores/sealstore"}
	// surfaces put the engine in front of work; they know a store only as the interface.
	surfaces = []string{"httpidem", "mqidem", "gateway", "guard", "outbox", "rpcidem"}
)

// apart are pairs of layers that must not reach each other, not even through a third package.
var apart = []struct {
	from, to []string
	why      string
}{
	{stores, surfaces, "a store serves every surface"},
	{[]string{"httpidem", "mqidem"}, stores, "a surface works over every store"},
	{[]string{"outbox"}, slices.Concat(stores, []string{"httpidem", "mqidem", "gateway", "guard"}), "an outbox needs a transaction and no record"},
	{[]string{"lock"}, []string{"stores/redisstore", "stores/memstore"}, "a lock needs no record; share the client instead"},
}

// shared are packages below a store that other packages may also use.
var shared = []string{"redisclient", "stores/sqlstore/dbtx"}

func layersDoNotMeet(t *Tree) []Violation {
	var found []Violation
	for _, dir := range t.packageDirs() {
		if isTestSuite(dir) {
			continue
		}
		for _, pair := range apart {
			if !withinAny(dir, pair.from) {
				continue
			}
			for _, e := range t.reachedImports(dir) {
				if e.ours && withinAny(e.dir, pair.to) && !withinAny(e.dir, shared) {
					found = append(found, Violation{e.file.Path, dir + " would reach " + e.path + ": " + pair.why})
				}
			}
		}
	}
	return found
}

// suitesAreForTests: only tests and other *test packages import a *test package.
func suitesAreForTests(t *Tree) []Violation {
	var found []Violation
	for _, e := range t.importEdges(func(f *File) bool { return !f.Test() && !isTestSuite(f.Dir()) }) {
		if e.ours && isTestSuite(e.dir) {
			found = append(found, Violation{e.file.Path, "imports " + e.path + ", which is for tests"})
		}
	}
	return found
}

// programs combine packages or try them out, so they may import adapters.
var programs = []string{"cmd", "test", "examples"}

// leavesNotImported: a program chooses its adapters. If a package imported one, every user of the
// package would get it. A command is only imported by itself.
func leavesNotImported(t *Tree) []Violation {
	var found []Violation
	for _, e := range t.importEdges(func(*File) bool { return true }) {
		from := e.file.Dir()
		switch {
		case !e.ours:
		case isWithin(e.dir, "cmd") && !isWithin(from, "cmd"):
			found = append(found, Violation{e.file.Path, "imports the command " + e.path})
		case isWithin(e.dir, "adapters") && !isWithin(from, "adapters") && !withinAny(from, programs):
			found = append(found, Violation{e.file.Path, "imports the adapter " + e.path})
		}
	}
	return found
}

// adaptersUseRoot: an adapter connects one third-party library to the root module and imports no
// other child module.
func adaptersUseRoot(t *Tree) []Violation {
	var found []Violation
	for _, e := range t.importEdges(func(f *File) bool { return isWithin(f.Dir(), "adapters") }) {
		m := t.owningModule(e.path)
		if m != nil && m.Dir != "." && m != t.moduleOf(e.file) {
			found = append(found, Violation{e.file.Path, "an adapter imports " + e.path + " of the module in " + m.Dir})
		}
	}
	return found
}

// rootImportsOwn: in the workspace the root module could import what a child module requires, but
// that would fail for users of the module.
func rootImportsOwn(t *Tree) []Violation {
	var found []Violation
	for _, e := range t.importEdges(func(*File) bool { return true }) {
		from := t.moduleOf(e.file)
		if from == nil || from.Dir != "." {
			continue
		}
		if m := t.owningModule(e.path); m != from && (m != nil || !isStandard(e.path)) {
			found = append(found, Violation{e.file.Path, "the root module imports " + e.path + "; move what needs it to a child module"})
		}
	}
	return found
}

// isStandard reports whether an import path is in the standard library: its first part is no host
// name.
func isStandard(importPath string) bool {
	first, _, _ := strings.Cut(importPath, "/")
	return !strings.Contains(first, ".")
}

// internalsStayInModule: each module can be used with another version of the others, so a module
// must not depend on another's internal packages. Tests may share helpers, since they run in the
// repository.
func internalsStayInModule(t *Tree) []Violation {
	var found []Violation
	for _, e := range t.importEdges(func(f *File) bool { return !f.Test() }) {
		from, to := t.moduleOf(e.file), t.owningModule(e.path)
		if from == nil || to == nil || from == to || !t.isTagged(from) {
			continue
		}
		if slices.Contains(strings.Split(e.dir, "/"), "internal") {
			found = append(found, Violation{e.file.Path, "imports " + e.path + " of another module; make public what modules share"})
		}
	}
	return found
}

// gatewayLayers are the packages of the gateway from the bottom to the top. A package imports those
// below it only: the proxy knows nothing of its configuration file, and the routes nothing of HTTP
// beyond a method and a path.
var gatewayLayers = [][]string{
	{"gateway/internal/once", "gateway/internal/route", "gateway/internal/clientaddr", "gateway/internal/signed", "gateway/internal/bearer", "gateway/internal/inside"},
	{"gateway"},
	{"gateway/config"},
}

func gatewayPointsDown(t *Tree) []Violation {
	layerOf := func(dir string) int {
		return slices.IndexFunc(gatewayLayers, func(dirs []string) bool { return slices.Contains(dirs, dir) })
	}
	var found []Violation
	for _, e := range t.importEdges(func(f *File) bool { return !f.Test() && isWithin(f.Dir(), "gateway") }) {
		switch from, to := layerOf(e.file.Dir()), layerOf(e.dir); {
		case !e.ours || !isWithin(e.dir, "gateway"):
		case from < 0 || to < 0:
			found = append(found, Violation{e.file.Path, e.file.Dir() + " or " + e.path + " is in no layer; put it into gatewayLayers"})
		case to >= from:
			found = append(found, Violation{e.file.Path, "imports " + e.path + ", which is not below it"})
		}
	}
	return found
}
