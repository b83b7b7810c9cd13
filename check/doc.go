// Package check finds out whether an HTTP API is safe to retry.
//
// It sends one request again and again in the ways in which clients, networks and crashes repeat
// requests, and looks at two things: what the API answers, and how often the request took effect.
// The effects are counted by an [Oracle]: a page that shows a number, a command, the webhooks that
// the API sends, or a proxy between the part that guards requests and the service. Without an
// oracle the answers alone are compared, and a check that cannot decide so says what it needs.
//
// The API may be written in any language. It is asked over HTTP only.
//
//	report, err := check.Examine(ctx, check.Target{
//		Request: check.Request{Method: "POST", URL: "http://localhost:8080/orders", Body: []byte(`{"amount":500}`)},
//		Oracle:  check.Page{URL: "http://localhost:8080/orders", Path: "$.total"},
//	}, nil)
//
// In a Go test, [Run] does the same and fails the test for each check that finds a fault.
//
// Every check acts on the API: payments are made, orders are written. Unless [Options.Allow] names
// its host, only an API on the loopback interface is examined.
package check
