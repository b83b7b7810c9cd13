//go:build race

package attacks_test

// room is the memory that the process may use; the race detector needs several times as much.
const room = 1000 << 20
