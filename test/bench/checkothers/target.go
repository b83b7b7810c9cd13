package main

import (
	"net/http"

	"github.com/retrysafe/retrysafe/check"
)

// The values of Authorization of the two callers.
const (
	ann = "Bearer token-of-ann"
	bob = "Bearer token-of-bob"
)

var callers = map[string]string{ann: "ann", bob: "bob"}

// newTarget returns all that is known of a service. There is no restart: each service keeps its
// answers in memory, as the example of its documentation does.
func newTarget(address, keyHeader string) check.Target {
	pay := check.Request{
		URL:    "http://" + address + "/payments",
		Header: http.Header{"Authorization": {ann}, "Content-Type": {"application/json"}},
		Body:   []byte(`{"amount":500,"currency":"EUR"}`),
	}
	refund := pay.Clone()
	refund.URL = "http://" + address + "/refunds"
	trouble := func(status string) *check.Trouble {
		return &check.Trouble{Header: http.Header{"X-Trouble": {status}}}
	}
	return check.Target{
		Request: pay, KeyHeader: keyHeader, Oracle: check.Page{URL: "http://" + address + "/effects", Path: "$.total"}, OtherRoute: &refund,
		OtherCaller: http.Header{"Authorization": {bob}},
		ClientError: trouble("400"), TooMany: trouble("429"), ServerError: trouble("500"),
	}
}
