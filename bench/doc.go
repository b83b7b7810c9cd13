// Package bench measures this library beside its rivals, on one machine and in
// one run, and holds the assertions on allocations. It is never tagged.
package bench
