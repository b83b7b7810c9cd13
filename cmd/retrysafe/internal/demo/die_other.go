//go:build !linux

package demo

import "os/exec"

// dieWithParent does nothing: this system has no such signal. The demo ends its children when it
// ends normally.
func dieWithParent(*exec.Cmd) {}
