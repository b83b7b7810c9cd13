// Command checkothers examines idempotency middleware of several frameworks with package check, and
// prints what it found, in the form of docs/check.md. Each is configured as the first
// example of its documentation shows it, after a middleware that knows the caller.
//
// The service around it is the same for all: POST /payments and POST /refunds take some
// milliseconds, GET /effects answers {"total": n}, there are two callers, and X-Trouble: 400, 429
// or 500 makes a request fail before it acts. The one for Express needs node and npm.
package main
