// Package attacks has no code. Its tests send a gateway what an attacker would send, byte for byte,
// and check the answer.
package attacks
