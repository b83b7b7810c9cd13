package archtest_test

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/retrysafe/retrysafe/internal/archtest"
)

// files are the texts of a synthetic tree, by path.
type files map[string]string

const (
	rootMod      = "module example.com/m\n\ngo 1.26\n"
	childMod     = "module example.com/m/gateway\n\nrequire example.com/m v0.3.0\n"
	adapterMod   = "module example.com/m/adapters/xidem\n\nrequire example.com/m v0.3.0\n"
	commandMod   = "module example.com/m/cmd/tool\n\nrequire (\n\texample.com/m v0.3.0\n\texample.com/m/gateway v0.3.0 // why\n)\n"
	trialMod     = "module example.com/m/trial\n\nrequire example.com/m v0.3.0\n"
	work         = "go 1.26\n\nuse (\n\t.\n\t./gateway\n\t./adapters/xidem\n\t./cmd/tool\n\t./trial\n)\n\n" + workReplaces
	workReplaces = "replace (\n\texample.com/m v0.3.0 => ./\n\texample.com/m/gateway v0.3.0 => ./gateway\n)\n"
	contributed  = "| module | stability |\n|---|---|\n| `example.com/m` | stable |\n| `example.com/m/gateway` | new |\n| `example.com/m/adapters/xidem` | new |\n| `example.com/m/cmd/tool` | new |\n| `example.com/m/trial` | never tagged |\n"
)

// clean returns a tree that breaks no rule. It has one of everything that a rule checks, and cases
// that nearly break one.
func clean() files {
	return files{
		"go.mod":                                rootMod,
		"go.work":                               work,
		"trial/go.mod":                          trialMod,
		"trial/a.go":                            goFile("trial", "example.com/m/internal/low"),
		"CONTRIBUTING.md":                       contributed,
		"core.go":                               goFile("m", "context", "example.com/m/stores/storeapi", "example.com/m/internal/low"),
		"core_test.go":                          goFile("m_test", "net/http", "testing", "example.com/m/stores/memstore", "example.com/m/stores/storetest"),
		"internal/low/a.go":                     goFile("low", "time"),
		"stores/memstore/a.go":                  goFile("memstore", "example.com/m/stores/storeapi"),
		"stores/storeapi/a.go":                  goFile("storeapi", "example.com/m/internal/low"),
		"stores/sqlstore/a.go":                  goFile("sqlstore", "database/sql", "example.com/m/stores/storeapi", "example.com/m/stores/sqlstore/dbtx"),
		"stores/sqlstore/dbtx/a.go":             goFile("dbtx", "database/sql"),
		"stores/storetest/a.go":                 goFile("storetest", "testing", "example.com/m", "example.com/m/stores/storetest/internal/broken"),
		"stores/storetest/internal/broken/a.go": goFile("broken", "example.com/m/stores/memstore"),
		"httpidem/a.go":                         goFile("httpidem", "net/http", "example.com/m"),
		"httpidem/a_test.go": goFile("httpidem_test", "testing", "testing/synctest", "time", "example.com/m/stores/memstore") +
			"func TestA(t *testing.T) { synctest.Test(t, func(*testing.T) { time.Sleep(1) }) }\n",
		"mqidem/a.go":                         goFile("mqidem", "example.com/m", "example.com/m/stores/sqlstore/dbtx"),
		"lock/a.go":                           goFile("lock", "example.com/m/redisclient"),
		"redisclient/a.go":                    goFile("redisclient", "time"),
		"gateway/go.mod":                      childMod,
		"gateway/a.go":                        goFile("gateway", "example.com/m/httpidem", "example.com/m/stores/memstore", "gopkg.in/foreign.v1"),
		"gateway/internal/route/a.go":         goFile("route", "net/http"),
		"gateway/b.go":                        goFile("gateway", "example.com/m/gateway/internal/route"),
		"gateway/config/a.go":                 goFile("config", "example.com/m/gateway", "example.com/m/gateway/internal/route"),
		"adapters/xidem/go.mod":               adapterMod,
		"adapters/xidem/a.go":                 goFile("xidem", "example.com/m", "gopkg.in/foreign.v1"),
		"cmd/tool/go.mod":                     commandMod,
		"cmd/tool/main.go":                    goFile("main", "example.com/m/gateway", "example.com/m/adapters/xidem", "example.com/m/cmd/tool/internal/cli"),
		"cmd/tool/internal/cli/a.go":          goFile("cli", "time"),
		"examples/shop/main.go":               goFile("main") + strings.Repeat("\n", 45),
		"adapters/amqpidem/a.go":              goFile("amqpidem", "example.com/m"),
		"adapters/amqpidem/a_test.go":         goFile("amqpidem_test", "testing", "example.com/m/mqidem/mqtest"),
		"mqidem/mqtest/a.go":                  goFile("mqtest", "testing"),
		"mqidem/doc.go":                       "// Package mqidem is for RabbitMQ.\npackage mqidem\n",
		"test/servers/brokers/a.go":           goFile("brokers", "example.com/m/adapters/amqpidem"),
		"cmd/retrysafe/internal/drivers/a.go": goFile("drivers", "example.com/m/adapters/amqpidem"),
		"README.md":                           "RabbitMQ and PostgreSQL",
		"docs/README.md":                      "RabbitMQ and PostgreSQL",
		"docs/concepts.md":                    "PostgreSQL",
		"docs/gateway.md":                     "PostgreSQL",
		"docs/add-a-store.md":                 "",
		"docs/messages.md":                    "amqpidem",
		"docs/outbox.md":                      "amqpidem",
		"docs/stores.md":                      "memstore and sqlstore",
		"docs/architecture.md":                "memstore and sqlstore",
		"doc.go":                              "// Package m has memstore and sqlstore.\npackage m\n",
		"scripts/gotest.sh":                   "brokers=(\n  adapters/amqpidem adapters/xidem\n)\n",
		"scripts/verify.sh":                   "raced=(. gateway)\n",
		"gateway/c.go":                        goFile("gateway") + "func serve() { go serve() }\n",
		"testdata/bad.go":                     "no Go at all",
		".git/config":                         "/hom" + "e/someone",
	}
}

// goFile returns a Go file with a package comment and imports.
func goFile(pkg string, imports ...string) string {
	text := "// Package " + pkg + " is made up.\npackage " + pkg + "\n\n"
	for _, p := range imports {
		text += "import \"" + p + "\"\n"
	}
	return text
}

// breaks maps each rule to changes of the clean tree that the rule must report, each with the
// beginning of the reported path. Each change replaces one file.
var breaks = map[string][]struct{ path, text, reported string }{
	"files parse": {{"core.go", "package", "core.go"}},
	"root requires nothing": {
		{"go.mod", rootMod + "require example.com/x v1.0.0\n", "go.mod"},
		{"go.mod", rootMod + "require (\n\texample.com/x v1.0.0 // indirect\n)\n", "go.mod"},
		{"go.mod", rootMod + "tool example.com/x\n", "go.mod"},
		{"go.mod", rootMod + "replace example.com/x => ./x\n", "go.mod"},
	},
	"go.work lists every module": {
		{"go.work", "go 1.26\n\nuse .\nuse ./gateway\nuse ./cmd/tool\n", "go.work"},
		{"new/go.mod", "module example.com/m/new\n", "go.work"},
		{"go.work", "use (\n\t.\n\t./gateway\n\t./adapters/xidem\n\t./cmd/tool\n\t./gone\n)\n", "go.work"},
	},
	"CONTRIBUTING lists every module": {
		{"CONTRIBUTING.md", "text only: `example.com/m/gateway`\n", "CONTRIBUTING.md"},
		{"CONTRIBUTING.md", strings.Replace(contributed, "m/gateway`", "m/gatewayx`", 1), "CONTRIBUTING.md"},
	},
	"modules replace nothing": {
		{"gateway/go.mod", childMod + "replace example.com/m => ../\n", "gateway/go.mod"},
		{"trial/go.mod", trialMod + "replace (\n\tgopkg.in/foreign.v1 v1.0.0 => ../x\n)\n", "trial/go.mod"},
	},
	"siblings have one version": {
		{"gateway/go.mod", strings.Replace(childMod, "v0.3.0", "v0.2.0", 1), ""},
		{"go.work", strings.Replace(work, workReplaces, "", 1), "go.work"},
		{"go.work", strings.Replace(work, "=> ./gateway", "=> ./cmd/tool", 1), "go.work"},
		{"gateway/go.mod", childMod + "require example.com/m/gone v0.3.0\n", "go.work"},
	},
	"tagged modules require tagged ones": {
		{"gateway/go.mod", childMod + "require example.com/m/trial v0.3.0\n", "gateway/go.mod"},
	},
	"core stays light": {
		{"core.go", goFile("m", "net/http/httptrace"), "core.go"},
		{"core.go", goFile("m", "database/sql"), "core.go"},
		{"internal/low/a.go", goFile("low", "testing"), "internal/low/a.go"},
	},
	"core stands alone": {
		{"core.go", goFile("m", "example.com/m/stores/memstore"), "core.go"},
		{"stores/storeapi/a.go", goFile("storeapi", "example.com/m"), "stores/storeapi/a.go"},
	},
	"stores do not know the engine": {{"stores/memstore/a.go", goFile("memstore", "example.com/m"), "stores/memstore/a.go"}},
	"layers do not meet": {
		{"stores/memstore/a.go", goFile("memstore", "example.com/m/httpidem"), "stores/memstore/a.go"},
		{"stores/sqlstore/dbtx/a.go", goFile("dbtx", "example.com/m/httpidem/token"), "stores/sqlstore/dbtx/a.go"},
		{"httpidem/a.go", goFile("httpidem", "example.com/m/stores/memstore"), "httpidem/a.go"},
		{"internal/low/a.go", goFile("low", "example.com/m/stores/sqlstore"), "internal/low/a.go"},
		{"lock/a.go", goFile("lock", "example.com/m/stores/redisstore"), "lock/a.go"},
	},
	"suites are for tests": {
		{"httpidem/a.go", goFile("httpidem", "example.com/m/stores/storetest"), "httpidem/a.go"},
		{"cmd/tool/main.go", goFile("main", "example.com/m/stores/storetest/internal/broken"), "cmd/tool/main.go"},
	},
	"adapters and commands are leaves": {
		{"gateway/a.go", goFile("gateway", "example.com/m/adapters/xidem"), "gateway/a.go"},
		{"gateway/a_test.go", goFile("gateway_test", "example.com/m/adapters/xidem"), "gateway/a_test.go"},
		{"gateway/a.go", goFile("gateway", "example.com/m/cmd/tool/internal/cli"), "gateway/a.go"},
	},
	"adapters use the root only": {{"adapters/xidem/a.go", goFile("xidem", "example.com/m/gateway"), "adapters/xidem/a.go"}},
	"root imports itself and the standard library": {
		{"httpidem/a.go", goFile("httpidem", "example.com/m/gateway"), "httpidem/a.go"},
		{"core_test.go", goFile("m_test", "gopkg.in/foreign.v1"), "core_test.go"},
	},
	"product code keeps to its module's internals": {
		{"gateway/a.go", goFile("gateway", "example.com/m/internal/low"), "gateway/a.go"},
		{"gateway/a.go", goFile("gateway", "example.com/m/cmd/tool/internal/cli"), "gateway/a.go"},
	},
	"the gateway's packages point down": {
		{"gateway/b.go", goFile("gateway", "example.com/m/gateway/config"), "gateway/b.go"},
		{"gateway/internal/route/a.go", goFile("route", "example.com/m/gateway"), "gateway/internal/route/a.go"},
		{"gateway/internal/new/a.go", goFile("new", "example.com/m/gateway/internal/once"), "gateway/internal/new/a.go"},
		{"gateway/b.go", goFile("gateway", "example.com/m/gateway/internal/new"), "gateway/b.go"},
	},
	"programs are lists of their parts": {
		{"cmd/tool/main.go", goFile("main") + strings.Repeat("\n", 40), "cmd/tool/main.go"},
		{"examples/shop/main.go", goFile("main") + strings.Repeat("\n", 50), "examples/shop/main.go"},
	},
	"functions are short": {
		{"core.go", goFile("m") + "func long() {\n" + strings.Repeat("\n", 81) + "}\n", "core.go:4"},
		{"gateway/a.go", goFile("gateway") + "func (x y) long() {\n" + strings.Repeat("\n", 81) + "}\n", "gateway/a.go"},
	},
	"packages have a comment": {{"stores/memstore/a.go", "package memstore\n", "stores/memstore"}},
	"text stands on its own": {
		{"a.md", "see ../sha" + "red/x.md", "a.md:1"},
		{"a.md", "\nrun /wor" + "k/main/x", "a.md:2"},
		{"a.md", "in /hom" + "e/someone", "a.md"},
		{".ci/run", "cd /roo" + "t/x", ".ci/run"},
		{"a.md", "from proxy.golan" + "g.org", "a.md"},
		{"core.go", goFile("m") + "// TOD" + "O: more\n", "core.go"},
		{"a.md", "fixes " + "#12", "a.md"},
		{"a.md", "lore" + "m ipsum", "a.md"},
	},
	"lists have every store": {
		{"stores/newstore/a.go", goFile("newstore", "example.com/m/stores/storeapi"), "internal/archtest/rules_import.go"},
		{"doc.go", "// Package m has memstore.\npackage m\n", "doc.go"},
		{"docs/stores.md", "memstore", "docs/stores.md"},
		{"docs/architecture.md", "sqlstore", "docs/architecture.md"},
		{"stores/newstore/a.go", goFile("newstore", "example.com/m/stores/storeapi"), "internal/archtest/rules_lists.go"},
		{"README.md", "RabbitMQ", "README.md"},
		{"docs/concepts.md", "Redis", "docs/concepts.md"},
		{"docs/gateway.md", "Redis", "docs/gateway.md"},
	},
	"lists have every broker": {
		{"adapters/xidem/a_test.go", goFile("xidem_test", "example.com/m/mqidem/mqtest"), "internal/archtest/rules_lists.go"},
		{"README.md", "rabbits", "README.md"},
		{"docs/README.md", "rabbits", "docs/README.md"},
		{"docs/messages.md", "", "docs/messages.md"},
		{"docs/outbox.md", "", "docs/outbox.md"},
		{"mqidem/doc.go", goFile("mqidem"), "mqidem/doc.go"},
		{"scripts/gotest.sh", "brokers=(adapters/xidem)\nserved=(adapters/amqpidem)\n", "scripts/gotest.sh"},
		{"test/servers/brokers/a.go", goFile("brokers"), "test/servers/brokers"},
		{"cmd/retrysafe/internal/drivers/a.go", goFile("drivers"), "cmd/retrysafe/internal/drivers"},
	},
	"the race detector sees goroutines": {
		{"scripts/verify.sh", "raced=(.)\n", "scripts/verify.sh"},
		{"adapters/xidem/a.go", goFile("xidem", "sync") + "func run(g *sync.WaitGroup) { g.Go(func() {}) }\n", "scripts/verify.sh"},
	},
	"a page names what makes options of the engine": {
		{"gateway/d.go", goFile("gateway", "example.com/m") + "var o = retrysafe.Options{Secret: nil, Sweep: 1}\n", "docs/add-a-store.md"},
	},
	"tests do not skip": {
		{"core_test.go", goFile("m_test", "testing") + "func TestA(t *testing.T) { t.Skip() }\n", "core_test.go:5"},
		{"stores/storetest/a.go", goFile("storetest", "testing") + "func run(tb testing.TB) { tb.Skipf(\"no\") }\n", "stores/storetest/a.go"},
	},
	"tests do not sleep": {
		{"core_test.go", goFile("m_test", "time") + "func wait() { time.Sleep(1) }\n", "core_test.go:5"},
		{"core_test.go", "// Package m is made up.\npackage m\n\nimport clock \"time\"\n\nfunc wait() { clock.Sleep(1) }\n", "core_test.go"},
		{"stores/storetest/a.go", goFile("storetest", "time") + "func wait() { time.Sleep(1) }\n", "stores/storetest/a.go"},
	},
}

func read(t *testing.T, all files) *archtest.Tree {
	t.Helper()
	fsys := fstest.MapFS{}
	for p, text := range all {
		fsys[p] = &fstest.MapFile{Data: []byte(text)}
	}
	tree, err := archtest.Read(fsys)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

func TestCleanTreeBreaksNoRule(t *testing.T) {
	t.Parallel()
	tree := read(t, clean())
	for _, rule := range archtest.Rules() {
		for _, v := range rule.Check(tree) {
			t.Errorf("%s: %v", rule.Name, v)
		}
	}
}

func TestEachRuleCatchesWhatItForbids(t *testing.T) {
	t.Parallel()
	for _, rule := range archtest.Rules() {
		t.Run(rule.Name, func(t *testing.T) {
			t.Parallel()
			if len(breaks[rule.Name]) == 0 {
				t.Fatal("no change of the clean tree shows that the rule can fail")
			}
			for _, change := range breaks[rule.Name] {
				all := clean()
				all[change.path] = change.text
				mustReport(t, rule.Check(read(t, all)), change.reported)
			}
		})
	}
	for name := range breaks {
		if !slices.ContainsFunc(archtest.Rules(), func(r archtest.Rule) bool { return r.Name == name }) {
			t.Errorf("changes are listed for %q, which is no rule", name)
		}
	}
}

// TestLongFunctions tests what the rule on functions leaves out.
func TestLongFunctions(t *testing.T) {
	t.Parallel()
	long := "func long() {\n" + strings.Repeat("\n", 81) + "}\n"
	all := clean()
	all["core_test.go"] = goFile("m_test") + long
	all["stores/storetest/b.go"] = goFile("storetest") + long
	all["b.go"] = "// Code generated by hand. DO NOT EDIT.\n\n" + goFile("m") + long
	all["c.go"] = goFile("m") + "func short() {\n" + strings.Repeat("\n", 80) + "}\n"
	tree := read(t, all)
	for _, rule := range archtest.Rules() {
		if rule.Name != "functions are short" {
			continue
		}
		if got := rule.Check(tree); len(got) != 0 {
			t.Errorf("a function that may be long is reported: %v", got)
		}
	}
}

func TestAllowanceForSleepMustBeUsed(t *testing.T) {
	t.Parallel()
	all := clean()
	all["core_test.go"] = goFile("m_test", "time") + "func wait() { time.Sleep(1) }\n"
	all["b_test.go"] = goFile("m_test")
	tree := read(t, all)
	if got := archtest.Sleeps(tree, map[string]string{"core_test.go": "a reason"}); len(got) != 0 {
		t.Errorf("an allowed sleep is reported: %v", got)
	}
	mustReport(t, archtest.Sleeps(tree, map[string]string{"core_test.go": ""}), "core_test.go")
	mustReport(t, archtest.Sleeps(tree, map[string]string{"core_test.go": "a reason", "b_test.go": "a reason"}), "b_test.go")
}

func mustReport(t *testing.T, found []archtest.Violation, path string) {
	t.Helper()
	if !slices.ContainsFunc(found, func(v archtest.Violation) bool { return strings.HasPrefix(v.Path, path) }) {
		t.Errorf("nothing reported at %s, only %v", path, found)
	}
}
