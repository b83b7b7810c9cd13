// Package gateway implements a reverse proxy that makes requests to a service safe to repeat. The
// service can be written in any language. A guarded request is sent to the service at most once per
// attempt, and every duplicate gets the first answer.
package gateway
