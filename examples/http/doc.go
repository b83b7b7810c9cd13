// Http is a shop in one file: a payment with an Idempotency-Key is charged once, however often it
// is sent. README.md shows a part of main.go, and the answers that curl gets from it; a test runs
// both.
//
//	go run ./examples/http
package main
