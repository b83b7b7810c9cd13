//go:build !race

package attacks_test

// room is what the process may take.
const room = 200 << 20
