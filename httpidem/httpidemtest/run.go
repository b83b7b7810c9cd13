// Package httpidemtest is the HTTP contract (H1 to H20 of docs/guarantees.md) as a black-box suite.
// Every adapter and the gateway must pass it. It sends HTTP requests to an implementation before an
// origin, and does not depend on what that implementation is.
package httpidemtest

import (
	"net/http"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpidem"
	"github.com/retrysafe/retrysafe/stores/storeapi"
)

// Setup is what a test requires of the implementation. The tenant is [httpidem.ByAuthorization]
// with its binding. Zero fields have their defaults.
type Setup struct {
	// Store holds the records. It is always set, and the suite makes it fail.
	Store  storeapi.Store
	Policy retrysafe.Policy
	// Guard has the options that a test changes. The implementation must set its Policy from the
	// field above, and Credentials if the test sets none. The engine must have the default
	// namespace and no secret, since the suite issues tokens for the implementation with its own
	// engine.
	Guard httpidem.Options
}

// Open starts the implementation under test before origin, and returns the address at which it
// answers, for example http://127.0.0.1:4711. It must stop what it started when the test ends.
type Open func(t *testing.T, origin http.Handler, s Setup) (base string)

// RunHTTP2 is Run over HTTP/2 without TLS, by prior knowledge (RFC 9113, section 3.3). The
// implementation must support HTTP/1.1 too.
func RunHTTP2(t *testing.T, open Open) {
	t.Helper()
	Run(t, func(t *testing.T, origin http.Handler, s Setup) string {
		return h2c + strings.TrimPrefix(open(t, origin, s), "http")
	})
}

// h2c replaces http in an address that is called over HTTP/2.
const h2c = "h2c"

// Run runs the suite. Subtests are named after the clauses.
func Run(t *testing.T, open Open) {
	t.Helper()
	for _, clause := range []struct {
		name string
		run  func(*testing.T, Open)
	}{
		{"H1", testKeys},
		{"H2", testGuarded},
		{"H3", testTenants},
		{"H4", testReplay},
		{"H5", testInProgress},
		{"H6", testMismatch},
		{"H7", testInDoubt},
		{"H8", testDuplicates},
		{"H9", testOutcomes},
		{"H10", testCrashes},
		{"H11", testNotKept},
		{"H12", testBodies},
		{"H13", testStoreDown},
		{"H14", testProblems},
		{"H16", testSecrets},
		{"H17", testOrder},
		{"H18", testTenantLimits},
		{"H20", testRedirects},
		{"Tokens", testTokens},
		{"Equality", testFingerprint},
		{"Params", testParams},
		{"Fields", testFields},
		{"Age", testRequestAge},
		{"FormKey", testFormKey},
		{"Rate", testRate},
		{"Contract", testContracts},
	} {
		t.Run(clause.name, func(t *testing.T) {
			t.Parallel()
			clause.run(t, open)
		})
	}
}
