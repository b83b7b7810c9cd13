// Package fingerprint has what options of v0.1.0 need.
package fingerprint

type Rule struct{ Ignore []string }
