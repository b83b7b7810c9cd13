// Package testclient has the HTTP client of tests. Tests that run in parallel cannot use
// http.DefaultClient: httptest.Server.Close closes the idle connections of http.DefaultTransport,
// and a request that has just taken one of them fails.
package testclient

import "net/http"

// HTTP is like http.DefaultClient, with its own connections.
var HTTP = &http.Client{Transport: http.DefaultTransport.(*http.Transport).Clone()} //nolint:errcheck,forcetypeassert // it is one
