// Package gateway is a proxy that makes the requests it guards safe to repeat,
// with no change in the service behind it.
package gateway
