// Package http tests the gateway with nginx, clients, browsers and the command itself.
package http
