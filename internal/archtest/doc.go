// Package archtest tests the layout rules of this repository.
//
// A [Rule] is a function over a [Tree]. A Tree is the repository, read once into memory, with its
// Go files and its go.mod and go.work files parsed. The tests run every rule over the real tree,
// and over small synthetic trees that break it, so that no rule passes because it checks nothing.
//
// To change what is allowed, change the table next to the rule and write the reason beside it.
package archtest
