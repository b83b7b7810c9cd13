// Package clientaddr tells clients apart by their network address, also those that a trusted
// server stands before.
package clientaddr
