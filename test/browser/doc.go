// Package browsertest tests the script and the forms in a real browser: what people do to a form,
// one mechanism at a time, and how often the order is then made. It is one test binary and is never
// tagged.
//
// A test that cannot reach what it needs fails; it does not skip.
package browsertest
