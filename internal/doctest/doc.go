// Package doctest holds the tests that keep the documentation true: what it names exists, and what
// it shows compiles.
package doctest
