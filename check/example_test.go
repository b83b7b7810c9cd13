package check_test

import (
	"context"
	"fmt"
	"log"
	"net/http"

	"github.com/retrysafe/retrysafe/check"
	"github.com/retrysafe/retrysafe/check/report"
)

// The API runs on this machine, and a page of it shows how often the request took effect.
func ExampleExamine() {
	charges, err := check.ParsePage("http://127.0.0.1:8080/stats | $.charges", "")
	if err != nil {
		log.Fatal(err)
	}
	r, err := check.Examine(context.Background(), check.Target{
		Request: check.Request{
			Method: http.MethodPost, URL: "http://127.0.0.1:8080/charges",
			Header: http.Header{"Content-Type": {"application/json"}}, Body: []byte(`{"amount":10}`),
		},
		Oracle: charges,
	}, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(report.Score(r))
}
