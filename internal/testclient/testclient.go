// Package testclient has the HTTP client of tests. http.DefaultClient is none for tests that run in
// parallel: httptest.Server.Close closes the idle connections of http.DefaultTransport, and a
// request that has just taken one of them fails.
package testclient

import "net/http"

// HTTP is like http.DefaultClient, with connections of its own.
var HTTP = &http.Client{Transport: http.DefaultTransport.(*http.Transport).Clone()} //nolint:errcheck,forcetypeassert // it is one
