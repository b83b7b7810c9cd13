// Package gateway is a reverse proxy that makes the requests behind it safe to repeat, for services
// in any language: a guarded request is sent to the service at most once per attempt, and every
// repeat gets the first answer.
package gateway
