package input_test

import (
	"fmt"

	"github.com/retrysafe/retrysafe/check/input"
)

func ExampleCurl() {
	request, err := input.Curl(`curl https://api.example.com/charges -H 'Idempotency-Key: k1' -d amount=10`)
	fmt.Println(err)
	fmt.Println(request.Method, request.URL, request.Header.Get("Idempotency-Key"))
	fmt.Println(string(request.Body))
	// Output:
	// <nil>
	// POST https://api.example.com/charges k1
	// amount=10
}
