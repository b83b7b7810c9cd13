// Package gatewayjava has a servlet in Tomcat and a client in Java, with the gateway between them.
// The test runs all three; README.md says how to do so by hand.
package gatewayjava
