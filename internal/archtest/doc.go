// Package archtest turns the layout rules of this repository into tests.
//
// A [Rule] is a function over a [Tree], which is the repository read once into
// memory: its Go files parsed, its go.mod and go.work files understood. The
// tests run every rule over the real tree, and over small synthetic ones that
// break it, so that no rule can pass because it looks at nothing.
//
// To change what is allowed, change the table beside the rule and write the
// reason next to it.
package archtest
