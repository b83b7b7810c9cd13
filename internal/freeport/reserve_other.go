//go:build !unix

package freeport

// reserve takes any port: there are no locks that end with the process here.
func reserve(string) bool { return true }
