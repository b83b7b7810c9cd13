//go:build race

package attacks_test

// room is what the process may take; the race detector takes several times as much.
const room = 1000 << 20
