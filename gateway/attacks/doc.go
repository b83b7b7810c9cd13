// Package attacks has no code: its tests send a gateway what an attacker would send, byte for byte,
// and say what the right answer is.
package attacks
