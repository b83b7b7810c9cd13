package archtest

import (
	"go/ast"
)

var testRules = []Rule{
	{"tests do not skip", testsDoNotSkip},
	{"tests do not sleep", testsDoNotSleep},
}

// testsDoNotSkip: a skipped test looks like a passed one. A test that cannot reach what it needs
// must fail.
func testsDoNotSkip(t *Tree) []Violation {
	var found []Violation
	for _, f := range t.GoFiles() {
		if f.localName("testing") == "" {
			continue
		}
		ast.Inspect(f.AST, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if method, ok := call.Fun.(*ast.SelectorExpr); ok {
				switch method.Sel.Name {
				case "Skip", "Skipf", "SkipNow":
					found = append(found, f.At(call, "skips a test; let it fail and say what is missing"))
				}
			}
			return true
		})
	}
	return found
}

// maySleep are the test files that may call time.Sleep outside a synctest bubble, with the reason.
var maySleep = map[string]string{
	"test/servers/brokers/child_test.go":         "a handler outlives its lease on a real clock",
	"test/servers/http/chromium_helpers_test.go": "it looks at a page again and again, up to a limit",
	"test/servers/http/nginx_server_test.go":     "a server of another program takes a while to start",
	"test/servers/http/nginx_store_test.go":      "a server has to be away for as long as a call waits for it",
	"test/servers/http/nginx_test.go":            "it looks at another program again and again, up to a limit",
	"test/servers/internal/servers/redis.go":     "a server of another program takes a while to start",
	"test/servers/locks/lock_bench_test.go":      "a waiter has to be waiting, which nothing tells from outside",
	"test/servers/locks/lock_faults_test.go":     "processes are stopped past their leases on a server's clock",
	"test/servers/redis/failover_test.go":        "a primary works a moment without its replica before it is killed",
	"test/servers/redis/shop_front_test.go":      "a service takes its time over real connections",
	"test/servers/redis/late_claims_test.go":     "a server hangs past the time of a request",
	"test/servers/redis/linear_test.go":          "what a proxy holds back comes some time",
	"test/servers/redis/model_test.go":           "leases and retentions have to pass on a server's clock",
	"test/servers/redis/outage_test.go":          "a server hangs for some time",

	"adapters/kafkaidem/server_test.go":       "it looks at a broker again and again, up to a limit",
	"adapters/natsidem/server_test.go":        "it looks at a broker again and again, up to a limit",
	"adapters/rocketmqidem/server_test.go":    "it looks at a broker and its group again and again, up to a limit",
	"adapters/redisstreamidem/server_test.go": "a server of another program takes a while to start, and is looked at again and again, up to a limit",

	"adapters/amqpidem/server_test.go":   "a server of another program takes a while to start, and is looked at again and again, up to a limit",
	"adapters/zklock/server_test.go":     "a server of another program takes a while to start",
	"adapters/zklock/zklock_test.go":     "it looks at another program again and again, up to a limit",
	"chaos_test.go":                      "callers of a storm, all of them in bubbles",
	"cmd/retrysafe/demo_test.go":         "it looks at other processes again and again, up to a limit",
	"cmd/retrysafe/operate_test.go":      "it looks at another process again and again, up to a limit",
	"cmd/retrysafe/main_test.go":         "the lease of a process that was killed has to pass, and a service is slow",
	"internal/servertest/process.go":     "a server of another program takes a while to start",
	"mqidem/helpers_test.go":             "time that passes in a world, all of them in bubbles",
	"reconcile_test.go":                  "a question that takes its time; it is used in bubbles only",
	"faults_test.go":                     "a store that answers late; it is used in bubbles only",
	"gateway/balance_test.go":            "it waits for health checks over real connections",
	"gateway/edges_test.go":              "a client that does not read for a while",
	"gateway/server_test.go":             "a connection rests between requests",
	"gateway/line_test.go":               "answers that come in pieces over real connections",
	"gateway/late_answer_test.go":        "answers that come late over real connections, and a store that is slow",
	"gateway/operation_test.go":          "it looks at real servers again and again, up to a limit",
	"gateway/once_test.go":               "the ends of real connections, and a lease that has to pass",
	"httpidem/httpidemtest/answers.go":   "waiters have to be waiting, which nothing tells from outside",
	"httpidem/httpidemtest/client.go":    "it looks at a black box again and again, up to a limit",
	"test/browser/browser_test.go":       "it looks at a page again and again, up to a limit",
	"lock/histories_test.go":             "calls that take their time; it is used in bubbles only",
	"lock/locktest/clauses.go":           "leases have to pass on a server's clock, and holders to meet",
	"lock/locktest/pass_clause.go":       "leases have to pass on a server's clock",
	"step_faults_test.go":                "work of steps that takes its time; it is used in bubbles only",
	"limit_counts_test.go":               "a transaction that takes its time; it is used in bubbles only",
	"stores/redisstore/clocks_test.go":   "a slow line; it is used in bubbles only",
	"cmd/retrysafe/soak_service_test.go": "a service that answers late, over real connections",
}

func testsDoNotSleep(t *Tree) []Violation { return findSleeps(t, maySleep) }

func findSleeps(t *Tree, allowed map[string]string) []Violation {
	var found []Violation
	used, seen := map[string]bool{}, map[string]bool{}
	for _, f := range t.GoFiles() {
		if !f.Test() && !isTestSuite(f.Dir()) {
			continue
		}
		seen[f.Path] = true
		clock, bubble := f.localName("time"), f.localName("testing/synctest")
		ast.Inspect(f.AST, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if isCall(call, bubble, "Test") || inBubble(call) {
				// time is simulated here: a sleep takes no real time and causes no race
				return false
			}
			if isCall(call, clock, "Sleep") {
				used[f.Path] = true
				if allowed[f.Path] == "" {
					found = append(found, f.At(call, "sleeps; wait for the event itself, or use testing/synctest"))
				}
			}
			return true
		})
	}
	for p := range allowed {
		if seen[p] && !used[p] {
			found = append(found, Violation{p, "may sleep but does not; take it off the list"})
		}
	}
	return found
}

// inBubble reports whether the call is bubble(t, func…), the usual helper for synctest.Test in
// packages with many such tests.
func inBubble(call *ast.CallExpr) bool {
	id, ok := call.Fun.(*ast.Ident)
	return ok && id.Name == "bubble"
}

// isCall reports whether call is pkg.name(…). An empty pkg means that the file does not import the
// package.
func isCall(call *ast.CallExpr, pkg, name string) bool {
	fun, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || pkg == "" || fun.Sel.Name != name {
		return false
	}
	id, ok := fun.X.(*ast.Ident)
	return ok && id.Name == pkg
}
