// Package integration runs the suites of this repository against real
// components: database drivers, servers, processes that are killed and
// connections that are cut. Each folder is one test binary with its own
// servers; what they share is in internal. It is never tagged.
//
// A test that cannot reach what it needs fails; it does not skip.
package integration
