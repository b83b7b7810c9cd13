//go:build !race

package attacks_test

// room is the memory that the process may use.
const room = 200 << 20
