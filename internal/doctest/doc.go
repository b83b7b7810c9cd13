// Package doctest tests that the documentation is true: what it names exists, and the code that it
// shows compiles.
package doctest
