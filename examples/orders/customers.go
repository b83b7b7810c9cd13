package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe/outbox"
)

// sendAll sends each order one to three times at once under one key, as an impatient customer does,
// and checks that all answers to one order are the same. It returns how many requests it sent.
func sendAll(ctx context.Context, url string, orders int) (sent int, err error) {
	var all sync.WaitGroup
	turns := make(chan struct{}, 8)
	errs := make([]error, orders)
	for i := range orders {
		copies := 1 + i%3
		sent += copies
		sku := inStock
		if i%missingEvery == 0 {
			sku = outOfStock
		}
		turns <- struct{}{}
		all.Go(func() {
			defer func() { <-turns }()
			errs[i] = sendOne(ctx, url, fmt.Sprintf(`{"customer":"customer %d","sku":%q}`, i%17, sku), copies)
		})
	}
	all.Wait()
	return sent, errors.Join(errs...)
}

func sendOne(ctx context.Context, url, body string, copies int) error {
	key := outbox.NewID()
	answers, errs := make([]string, copies), make([]error, copies)
	var all sync.WaitGroup
	for i := range copies {
		all.Go(func() { answers[i], errs[i] = requestOrder(ctx, url, key, body) })
	}
	all.Wait()
	for _, other := range answers[1:] {
		if other != answers[0] {
			return errors.New("two requests of one order got different answers")
		}
	}
	return errors.Join(errs...)
}

// requestOrder retries until the answer has an order: while the first request is in progress, a
// duplicate is answered with a time to retry after.
func requestOrder(ctx context.Context, url, key, body string) (string, error) {
	for {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader([]byte(body)))
		if err != nil {
			return "", err
		}
		r.Header.Set("Idempotency-Key", key)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			return "", err
		}
		answer, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		switch {
		case err != nil:
			return "", err
		case resp.StatusCode == http.StatusCreated:
			return string(answer), nil
		case resp.Header.Get("Retry-After") == "":
			return "", fmt.Errorf("an order was refused with status %d: %s", resp.StatusCode, answer)
		}
		if err := sleepFor(ctx, 50*time.Millisecond); err != nil {
			return "", err
		}
	}
}
