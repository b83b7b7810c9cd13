// Package gatewaypython has a service and a client in Python, with the gateway between them. The
// test runs all three; README.md says how to do so by hand.
package gatewaypython
