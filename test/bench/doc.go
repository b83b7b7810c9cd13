// Package bench compares this library with its rivals, on one machine and in one run, and has the
// tests of allocations. It has no version tags.
package bench
